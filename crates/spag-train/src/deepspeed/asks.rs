//! Whether a value asks for something, for the keys that are refused when theirs does.

use serde_json::Value;

/// Turned on: true by itself, or in `enabled`, or (compression's sections) in an `enabled` further down.
pub(super) fn on(value: &Value) -> bool {
    match value {
        Value::Object(object) => match object.get("enabled") {
            Some(enabled) => on(enabled),
            None => object.values().any(|inner| inner.is_object() && on(inner)),
        },
        other => present(other),
    }
}

/// Anything that is not empty to Python; `"auto"` asks for nothing.
pub(super) fn present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && text != "auto",
        Value::Array(items) => !items.is_empty(),
        Value::Object(object) => !object.is_empty(),
    }
}

pub(super) fn off(value: &Value) -> bool {
    *value == false
}

pub(super) fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

pub(super) fn above_one(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 1.0)
}

pub(super) fn below_one(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number < 1.0)
}

/// The number before the first step is -1.
pub(super) fn begun(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number >= 0.0)
}

pub(super) fn not_f32(value: &Value) -> bool {
    present(value) && value != "fp32"
}

/// An object without a `mode` means the mode "fixed".
pub(super) fn sparse(value: &Value) -> bool {
    present(value) && value.get("mode").is_none_or(|mode| mode != "dense")
}

pub(super) fn other_device(value: &Value) -> bool {
    value == "nvme" || value == "hpu"
}

/// DeepSpeed ignores the case of an optimizer's name, and its `Adam` decays like AdamW.
pub(super) fn other_optimizer(value: &Value) -> bool {
    value.as_str().is_some_and(|name| !["adam", "adamw"].contains(&name.to_lowercase().as_str()))
}

pub(super) fn other_scheduler(value: &Value) -> bool {
    value.as_str().is_some_and(|name| !["WarmupLR", "WarmupDecayLR"].contains(&name))
}
