//! Folder sizes and free disk space in GiB.

use std::fs;
use std::path::Path;

use rustix::fs::statvfs;

/// Bytes as GiB.
pub fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1u32 << 30)
}

/// Bytes as text in GiB with two decimals, `1.50 GiB`.
pub fn format_gib(bytes: u64) -> String {
    format!("{:.2} GiB", gib(bytes))
}

/// Free bytes on the disk of `path`, which need not exist yet. `None` if the file system does not report it.
pub fn free_disk(path: &Path) -> Option<u64> {
    let existing = |folder: &Path| statvfs(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok();
    let disk = path.ancestors().find_map(existing)?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Total bytes of the files in a folder, recursively; 0 if it does not exist. Links are not followed.
pub fn folder_size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.filter_map(|entry| entry.ok()).map(size).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_added_up_and_a_missing_one_has_the_disk_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("one"), [0; 100]).unwrap();
        fs::write(folder.path().join("a/b/two"), [0; 23]).unwrap();
        assert_eq!(folder_size(folder.path()), 123);
        let missing = folder.path().join("c/d");
        assert_eq!(folder_size(&missing), 0);
        assert!(free_disk(&missing).is_some_and(|free| free > 0));
    }
}
