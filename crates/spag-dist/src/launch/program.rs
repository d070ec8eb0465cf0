//! Looks up the program of the ranks.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds a program like a shell: by its path if it contains a slash, otherwise in the folders of `search` (in the
/// format of PATH). `spag` and `spag-*` are looked up in `beside` first.
pub(super) fn find_program(program: &OsStr, beside: Option<&Path>, search: Option<&OsStr>) -> Option<PathBuf> {
    if program.is_empty() {
        return None;
    }
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let ours = program == "spag" || program.as_bytes().starts_with(b"spag-");
    let beside = beside.filter(|_| ours).map(Path::to_owned);
    let folders = beside.into_iter().chain(search.into_iter().flat_map(std::env::split_paths));
    folders.map(|folder| folder.join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_programs_are_found_beside_the_launcher_first() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("here"), folder.path().join("there"));
        for place in [&here, &there] {
            fs::create_dir(place).unwrap();
            for name in ["spag-train", "tool", "text"] {
                let path = place.join(name);
                fs::write(&path, "").unwrap();
                let mode = if name == "text" { 0o644 } else { 0o755 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        let found = |name: &str| find_program(name.as_ref(), Some(&here), Some(there.as_os_str()));
        assert_eq!(found("spag-train"), Some(here.join("spag-train")));
        assert_eq!(found("tool"), Some(there.join("tool")));
        assert_eq!([found("text"), found("none"), found("")], [const { None }; 3]);
        let path = here.join("tool");
        assert_eq!(found(path.to_str().unwrap()), Some(path));
        assert_eq!(found("./tool"), None);
    }
}
