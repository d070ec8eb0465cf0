//! Opens files for writing in place, without following links, so that no other file is modified.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens a file that is written in place: a record, a lock or a temporary file. Pipes and devices are opened normally.
///
/// # Errors
/// The file cannot be opened, or it is a symbolic link or has hard links.
pub(crate) fn open_in_place(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    if is_stream(path) {
        return options.open(path);
    }
    let refused = |problem: String| Err(io::Error::new(ErrorKind::InvalidInput, problem));
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    }
    // A custom message: the system's reports too many links.
    if let Ok(target) = fs::read_link(path) {
        let target = target.display();
        return refused(format!(
            "this is a symbolic link to {target}, which would be changed; delete the link, or name the file"
        ));
    }
    let file = options.open(path)?;
    match names(&file.metadata()?) {
        0 | 1 => Ok(file),
        names => refused(format!(
            "this file has {names} names (hard links), and all of them would be changed; replace it by a copy"
        )),
    }
}

/// The number of hard links of a regular file.
#[cfg(unix)]
fn names(found: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    if found.is_file() { found.nlink() } else { 1 }
}

#[cfg(not(unix))]
fn names(_: &fs::Metadata) -> u64 {
    1
}

/// Whether a path is a pipe, a device or an already open descriptor of the process.
pub(crate) fn is_stream(path: &Path) -> bool {
    let open = ["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    open.iter().any(|open| path.starts_with(open))
        || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{Classify, ErrorClass, FileLock, JsonlAppender, write_atomically};

    #[test]
    fn no_file_behind_a_link_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, absent) = (folder.path().join("victim"), folder.path().join("absent"));
        fs::write(&victim, "kept").unwrap();
        let (soft, hard, broken) =
            (folder.path().join("soft"), folder.path().join("hard"), folder.path().join("broken"));
        symlink(&victim, &soft).unwrap();
        symlink(&absent, &broken).unwrap();
        fs::hard_link(&victim, &hard).unwrap();
        for (link, reason) in [(&soft, "symbolic link"), (&broken, "symbolic link"), (&hard, "hard links")] {
            let results = [
                FileLock::wait(link).map(drop),
                FileLock::try_acquire(link).map(drop),
                JsonlAppender::<u32>::create(link).map(drop),
                JsonlAppender::<u32>::resume(link).map(drop),
                JsonlAppender::<u32>::reopen(link, 1).map(drop),
            ];
            for result in results {
                let error = result.unwrap_err();
                // A link to nothing is not found by those that expect a file.
                assert!(error.to_string().contains(reason) || error.to_string().contains("No such file"), "{error}");
                assert_eq!(error.class(), ErrorClass::BadInput);
            }
            write_atomically(link, "new").unwrap();
            assert_eq!(fs::read_to_string(link).unwrap(), "new");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert!(!absent.exists());
        assert!([&soft, &broken, &hard].iter().all(|link| fs::symlink_metadata(link).unwrap().is_file()));
    }
}
