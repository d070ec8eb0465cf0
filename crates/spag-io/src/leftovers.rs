//! Removes files left by killed processes. Live processes keep their files locked.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::identity::is_at;

/// Removes the regular files in `folder` whose names `is_leftover` accepts and that no process has locked.
///
/// Best effort: a file that cannot be opened, locked or removed is kept, and so are all files of a file system without
/// locks. Links are not followed.
pub fn remove_unlocked_files(folder: impl AsRef<Path>, is_leftover: impl Fn(&OsStr) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| is_leftover(&entry.file_name())) {
        let path = entry.path();
        // Opening a named pipe could wait for ever. The file may be replaced before it is locked.
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(file) = open(&path)
            && file.try_lock().is_ok()
            && is_at(&file, &path)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Opens a regular file, for writing, since some network file systems lock no others.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    }
    options.write(true).open(path)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_unlocked_regular_files_of_the_name_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["1.left", "2.left", "locked.left", "other", "target"] {
            fs::write(path(name), "half").unwrap();
        }
        fs::create_dir(path("folder.left")).unwrap();
        symlink(path("target"), path("link.left")).unwrap();
        symlink(path("absent"), path("broken.left")).unwrap();
        // Created without a child process, which would briefly inherit the locks of other tests.
        mknodat(CWD, path("pipe.left"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let locked = File::open(path("locked.left")).unwrap();
        locked.lock().unwrap();
        // In a thread, since opening the pipe would never return.
        let (sender, done) = channel();
        let within = folder.path().to_owned();
        std::thread::spawn(move || {
            remove_unlocked_files(&within, |name| name.as_encoded_bytes().ends_with(b".left"));
            sender.send(())
        });
        done.recv_timeout(Duration::from_secs(60)).expect("it does not wait for the pipe");
        let kept = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let expected = ["broken.left", "folder.left", "link.left", "locked.left", "other", "pipe.left", "target"];
        assert_eq!(kept.collect::<BTreeSet<_>>(), expected.map(String::from).into());
        remove_unlocked_files(path("absent"), |_| true);
    }

    #[test]
    fn file_that_was_replaced_after_it_was_opened_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "old").unwrap();
        let file = open(&path).unwrap();
        assert!(is_at(&file, &path));
        fs::rename(&path, &target).unwrap();
        assert!(!is_at(&file, &path));
        symlink(&target, &path).unwrap();
        assert!(!is_at(&file, &path) && open(&path).is_err());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "new").unwrap();
        assert!(!is_at(&file, &path));
    }
}
