//! Parses the sliding window of each block from `config.json`.

use serde_json::Value;
use spag_io::quote;

use super::architecture::Architecture;
use super::keys::{Keys, fail};
use crate::error::Result;

/// The window applies to blocks by `layer_types`, or from `max_window_layers` on, if `use_sliding_window` is true.
pub(super) fn of_qwen(keys: Keys<'_>, model: &Architecture) -> Result<Vec<Option<usize>>> {
    let window = match keys.truth("use_sliding_window")?.unwrap_or(false) {
        true if keys.contains("sliding_window") => keys.size("sliding_window")?,
        true => Some(4096),
        false => None,
    };
    let full = keys.size("max_window_layers")?.unwrap_or(28);
    of_types(keys, model, window, |layer| layer >= full)
}

/// The window applies to blocks by `layer_types`, or to those without RoPE, if `use_sliding_window` is true.
pub(super) fn of_smollm3(keys: Keys<'_>, model: &Architecture) -> Result<Vec<Option<usize>>> {
    let window = keys.size("sliding_window")?;
    let window = if keys.truth("use_sliding_window")?.unwrap_or(false) { window } else { None };
    of_types(keys, model, window, |layer| model.without_rope.contains(&layer))
}

/// The window applies to blocks by `layer_types`, or to all but every `period`-th.
pub(super) fn of_kinds(keys: Keys<'_>, model: &Architecture, period: usize) -> Result<Vec<Option<usize>>> {
    let window = if keys.contains("sliding_window") { keys.size("sliding_window")? } else { Some(4096) };
    if window.is_none() {
        return fail("`sliding_window` is null; models of this `model_type` have windows".into());
    }
    of_types(keys, model, window, |layer| (layer + 1) % period != 0)
}

/// The window applies to blocks by `layer_types`; without the key to those selected by `sliding`.
fn of_types(
    keys: Keys<'_>,
    model: &Architecture,
    window: Option<usize>,
    sliding: impl Fn(usize) -> bool,
) -> Result<Vec<Option<usize>>> {
    let Some(listed) = self::sliding(keys, model)? else { return of_blocks(model, window, sliding) };
    if window.is_none() && listed.contains(&true) {
        return fail(
            "`layer_types` has \"sliding_attention\", which is supported with `use_sliding_window` and `sliding_window`"
                .into(),
        );
    }
    of_blocks(model, window, |layer| listed[layer])
}

/// Which blocks have a window by `layer_types`, if the key is present.
fn sliding(keys: Keys<'_>, model: &Architecture) -> Result<Option<Vec<bool>>> {
    let Some(types) = keys.list("layer_types")? else { return Ok(None) };
    if types.len() != model.num_hidden_layers {
        let layers = model.num_hidden_layers;
        return fail(format!("`layer_types` has {} entries for {layers} layers", types.len()));
    }
    let is_sliding = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Ok(false),
        Some("sliding_attention") => Ok(true),
        _ => {
            let kind = quote(&kind.to_string());
            fail(format!("`layer_types` has {kind}; \"full_attention\" and \"sliding_attention\" are supported"))
        }
    };
    types.iter().map(is_sliding).collect::<Result<_>>().map(Some)
}

/// The window of each block: `window` for those selected by `sliding`.
pub(super) fn of_blocks(
    model: &Architecture,
    window: Option<usize>,
    sliding: impl Fn(usize) -> bool,
) -> Result<Vec<Option<usize>>> {
    if window == Some(0) {
        return fail("`sliding_window` is 0".into());
    }
    // An out-of-range number of layers is refused later; nothing is allocated for it.
    let layers = if window.is_some() && model.has_layers_in_range() { model.num_hidden_layers } else { 0 };
    Ok((0..layers).map(|layer| window.filter(|_| sliding(layer))).collect())
}
