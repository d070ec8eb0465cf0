//! Temporary files for atomic writes: `.NAME.PROCESS.tmp` in the folder of NAME.
//!
//! A process keeps its temporary file locked while writing it, so an unlocked one was left by a killed process. On file
//! systems without locks, leftovers are kept.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::in_place::open_in_place;
use crate::leftovers::remove_unlocked_files;

/// Maximum attempts to create a file, which another process may remove as a leftover before it is locked.
const TRIES: usize = 50;

/// Creates the temporary file of `path`, whose file name is `name`, and locks it.
pub(crate) fn create(path: &Path, name: &OsStr) -> io::Result<(File, PathBuf)> {
    let temporary = path.with_file_name(file_name(name, &std::process::id().to_string()));
    let open = || {
        // Truncated only if it has no other hard link.
        let file = open_in_place(&temporary, File::options().write(true).create(true).truncate(false))?;
        if file.metadata()?.len() > 0 {
            file.set_len(0)?;
        }
        Ok::<_, io::Error>(file)
    };
    for _ in 0..TRIES {
        let file = open()?;
        // Between creation and locking, another process may have removed it as a leftover.
        match file.try_lock() {
            Ok(()) if !temporary.exists() => {}
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(1)),
            Ok(()) | Err(TryLockError::Error(_)) => return Ok((file, temporary)),
        }
    }
    // Another process writes under this name, maybe on another machine. The last rename wins.
    Ok((open()?, temporary))
}

/// Deletes the temporary files of `path` left by killed processes.
pub(crate) fn remove_leftovers(path: &Path, name: &OsStr) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    remove_unlocked_files(folder, |found| is_temporary(found, name));
}

fn file_name(name: &OsStr, process: &str) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{process}.tmp"));
    hidden
}

fn is_temporary(found: &OsStr, name: &OsStr) -> bool {
    let found = found.as_encoded_bytes();
    let process = found
        .strip_prefix(b".")
        .and_then(|rest| rest.strip_prefix(name.as_encoded_bytes()))
        .and_then(|rest| rest.strip_prefix(b"."))
        .and_then(|rest| rest.strip_suffix(b".tmp"));
    process.is_some_and(|process| !process.is_empty() && process.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::write_atomically;

    #[test]
    fn leftovers_of_the_same_file_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (kept, leftover) = ([".other.json.12.tmp", ".out.json.x.tmp", "out.json.12.tmp"], ".out.json.123.tmp");
        for name in kept.iter().chain([&leftover]) {
            fs::write(path(name), "half").unwrap();
        }
        // Another process is writing this one.
        let busy = File::create(path(".out.json.99.tmp")).unwrap();
        busy.lock().unwrap();
        write_atomically(path("out.json"), "whole").unwrap();
        assert_eq!(fs::read_to_string(path("out.json")).unwrap(), "whole");
        assert!(!path(leftover).exists() && path(".out.json.99.tmp").exists());
        assert!(kept.iter().all(|name| path(name).exists()));
    }

    #[test]
    fn folder_removed_while_a_file_is_written_is_an_error() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/out.json");
        let mut file = crate::AtomicFile::create(&path).unwrap();
        file.write_all(b"text").unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        let error = file.commit().unwrap_err();
        assert!(matches!(error, crate::Error::Removed { .. }), "{error}");
    }
}
