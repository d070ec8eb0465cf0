//! What the page shows of a rank.

use serde_json::{Value, json};
use spag_io::abridge;
use spag_run::Rank;

/// Bytes of a text.
const SHOWN: usize = 4096;

/// A rank with texts that are cut.
pub(super) fn rank_json(Rank { status, life, age }: &Rank) -> Value {
    let text = |text: &str| abridge(text, SHOWN).into_owned();
    let progressed = (status.updated - status.progressed).max(0.0);
    json!({
        "rank": status.rank,
        "host": text(&status.host),
        "pid": status.pid,
        "state": life,
        "stage": text(&status.stage),
        "part": text(&status.part),
        "done": status.done,
        "total": status.total,
        "rate": status.rate(),
        "seconds_left": status.seconds_left(),
        "note": text(&status.note),
        "seconds_running": (status.updated - status.started).max(0.0),
        "seconds_since_written": age.as_secs_f64(),
        "seconds_since_progress": (status.progressed > 0.0).then_some(progressed),
        "resident_bytes": status.resident_bytes,
        "peak_bytes": status.peak_bytes,
        "gpu_peak_bytes": status.gpu_peak_bytes,
        "error": status.error.as_deref().map(text),
    })
}
