//! The kernels' checks on a GPU, each by itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use serde_json::json;

use crate::report::Row;
use crate::{Place, kernels};

/// Runs every check of [`kernels::ALL`] and hands its row to `sink`; one that fails does not keep the others from
/// running.
pub fn run(place: &Place, sink: &mut dyn FnMut(Row)) {
    for (name, check) in kernels::ALL {
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

/// Runs `check`, which panics where something is wrong, and gives back what it said.
pub(crate) fn guarded(check: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(check)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "it panicked".into())
    })
}
