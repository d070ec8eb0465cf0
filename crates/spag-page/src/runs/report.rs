//! The report of a run as data, which the page draws. Of `report.html` nothing else is used: no script of it runs.

use serde_json::{Value, json};
use spag_io::EnclosedFolder;
use spag_run::document::Document;
use spag_run::files;
use spag_serve::ApiError;

/// Bytes of a report.
const MAX_BYTES: u64 = 1 << 26;

/// Whether a run has a report.
pub(super) fn exists(run: &EnclosedFolder) -> bool {
    run.has_file(files::REPORT_PAGE)
}

/// The report.
///
/// # Errors
/// There is none, or it cannot be read.
pub(super) fn answer(run: &EnclosedFolder) -> Result<Value, ApiError> {
    if !exists(run) {
        return Err(ApiError::not_found("This run has no report yet"));
    }
    let bytes = run.read_whole(files::REPORT_PAGE, MAX_BYTES);
    let bytes = bytes.map_err(|error| ApiError::server(spag_io::quote(&error.to_string())))?;
    let document = std::str::from_utf8(&bytes).ok().and_then(Document::of_html);
    let document = document.ok_or_else(|| {
        ApiError::not_found(
            "report.html of this run holds no data that this page can draw: another version wrote it. The command of the run \
             writes it again; report.txt in the folder has the same numbers",
        )
    })?;
    Ok(json!(document))
}
