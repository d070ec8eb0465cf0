//! Kernel checks, one file per op. Each runs the op on random data at a [`Place`] and on the CPU, and panics if the
//! results differ by more than rounding.
//!
//! Shapes include odd lengths, single rows, and sizes that are not multiples of vectors or tiles. Outputs are filled
//! with NaNs before a kernel writes them.

mod adamw;
mod attention;
mod bias;
mod cast;
mod embedding;
mod head_norm;
mod log_prob;
mod matmul;
mod packed_linear;
mod paged_attention;
mod rms_norm;
mod rope;
mod row_norm;
mod sample;
mod squared_norm;
mod swiglu;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use serde_json::json;

use crate::Place;
use crate::report::Row;

/// A named check.
pub type Check = (&'static str, fn(&Place));

/// All checks.
pub const ALL: &[Check] = &[
    ("adamw", adamw::check),
    ("attention", attention::check),
    ("bias", bias::check),
    ("cast", cast::check),
    ("embedding", embedding::check),
    ("head_norm", head_norm::check),
    ("log_prob", log_prob::check),
    ("matmul", matmul::check),
    ("packed_linear", packed_linear::check),
    ("paged_attention", paged_attention::check),
    ("rms_norm", rms_norm::check),
    ("rope", rope::check),
    ("row_norm", row_norm::check),
    ("sample", sample::check),
    ("squared_norm", squared_norm::check),
    ("swiglu", swiglu::check),
    ("geglu", swiglu::check_geglu),
];

/// Runs every check of [`ALL`] and passes its row to `sink`. A failure does not stop the other checks.
pub fn run(place: &Place, sink: &mut dyn FnMut(Row)) {
    for (name, check) in ALL {
        let began = Instant::now();
        let outcome = guarded(|| check(place));
        let seconds = began.elapsed().as_secs_f64();
        let result = outcome.as_ref().map_or_else(String::clone, |()| format!("{seconds:.1} s"));
        sink(Row {
            part: "kernels".into(),
            what: (*name).into(),
            result,
            numbers: json!({ "seconds": seconds }),
            passed: Some(outcome.is_ok()),
        });
    }
}

/// Runs `check` and returns the message of its panic, if any.
pub(crate) fn guarded(check: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(check)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "panicked".into())
    })
}
