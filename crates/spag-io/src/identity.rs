//! Whether an open file is still the one at its path.

use std::fs::{self, File};
use std::path::Path;

use crate::error::{Error, Result};

/// Checks that the file at `path` is this open one. Writing to a file that was removed succeeds, and all of it is lost.
///
/// Pipes and devices are not checked.
pub(crate) fn check_in_place(file: &File, path: &Path) -> Result<()> {
    let own = file.metadata().map_err(Error::io(path))?;
    let in_place = !own.is_file() || fs::metadata(path).is_ok_and(|found| is_same(&own, &found));
    if in_place { Ok(()) } else { Err(Error::Removed { path: path.to_owned() }) }
}

/// Whether this open regular file is the one at `path`, and not behind a link.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (own, found) = (file.metadata(), fs::symlink_metadata(path));
    own.is_ok_and(|own| own.is_file() && found.is_ok_and(|found| is_same(&own, &found)))
}

#[cfg(unix)]
fn is_same(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Without inode numbers, a replaced file is not noticed.
#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, found: &fs::Metadata) -> bool {
    found.is_file()
}
