//! File identity: whether two paths are one file, and whether an open file is still at its path.

use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

/// Checks that the file at `path` is this open one. Writing to a file that was removed succeeds, and all of it is lost.
///
/// Pipes and devices are not checked.
pub(crate) fn check_in_place(file: &File, path: &Path) -> Result<()> {
    let own = file.metadata().map_err(Error::io(path))?;
    let in_place = !own.is_file() || fs::metadata(path).is_ok_and(|found| is_same(&own, &found));
    if in_place { Ok(()) } else { Err(Error::Removed { path: path.to_owned() }) }
}

/// Whether two paths lead to one regular file or folder. Missing paths are compared after resolving links.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(found), Ok(other)) if cfg!(unix) => (found.is_file() || found.is_dir()) && is_same(&found, &other),
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => resolve(a) == resolve(b),
        _ => false,
    }
}

/// The path with links resolved. Its last components may not exist.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, mut found)) = known else { return absolute };
    for part in absolute.strip_prefix(above).unwrap_or(Path::new("")).components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            part => found.push(part),
        }
    }
    found
}

/// Whether this open regular file is the one at `path`, without following a link.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (own, found) = (file.metadata(), fs::symlink_metadata(path));
    own.is_ok_and(|own| own.is_file() && found.is_ok_and(|found| is_same(&own, &found)))
}

#[cfg(unix)]
fn is_same(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Without inode numbers, replaced files are not detected.
#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, found: &fs::Metadata) -> bool {
    found.is_file()
}
