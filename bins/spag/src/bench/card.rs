//! What `nvidia-smi` says of a GPU, on which measurements depend.

use std::process::Command;

use serde_json::{Map, Value};
use spag_ops::OpenDevice;

/// What is asked for, and its keys in a line of output. Clocks are in MHz, and those of the moment.
const FIELDS: [(&str, &str); 5] = [
    ("name", "name"),
    ("driver_version", "driver"),
    ("clocks.sm", "sm_mhz"),
    ("clocks.max.sm", "max_sm_mhz"),
    ("clocks.mem", "memory_mhz"),
];

/// The card of a device; `None` on a CPU, or if `nvidia-smi` does not answer.
pub(super) fn card(device: &OpenDevice) -> Option<Value> {
    let index = device.name().strip_prefix("cuda:")?;
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let id = visible.as_deref().and_then(|all| all.split(',').nth(index.parse().ok()?)).unwrap_or(index);
    let query = format!("--query-gpu={}", FIELDS.map(|(field, _)| field).join(","));
    let output = Command::new("nvidia-smi").args(["-i", id, &query, "--format=csv,noheader,nounits"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let value = |text: &str| text.parse::<u64>().map_or_else(|_| text.into(), Value::from);
    let values = FIELDS.iter().zip(text.trim().split(", ")).map(|((_, key), text)| ((*key).to_owned(), value(text)));
    Some(Value::Object(values.collect::<Map<_, _>>()))
}
