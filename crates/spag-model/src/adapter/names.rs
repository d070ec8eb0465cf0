//! Names of an adapter's matrices in PEFT files, and of their modules.

use crate::params::View;

/// The module of a matrix: `model.layers.0.mlp.up_proj` of `base_model.model.model.layers.0.mlp.up_proj.lora_A.weight`.
pub(super) fn module_of(matrix: &View) -> &str {
    let name = matrix.name.strip_prefix(PREFIX).unwrap_or(&matrix.name);
    name.rsplit_once(".lora_").map_or(name, |(module, _)| module)
}

/// PEFT's prefix of module names.
const PREFIX: &str = "base_model.model.";

/// The names of a module's matrices in a file.
pub(super) fn matrix_names(module: &str) -> [String; 2] {
    ["A", "B"].map(|matrix| format!("{PREFIX}{module}.lora_{matrix}.weight"))
}
