//! The names of an adapter's matrices in a file of PEFT, and of the modules that they belong to.

use crate::params::View;

/// The module of a matrix: `model.layers.0.mlp.up_proj` of `base_model.model.model.layers.0.mlp.up_proj.lora_A.weight`.
pub(super) fn module_of(matrix: &View) -> &str {
    let name = matrix.name.strip_prefix(PREFIX).unwrap_or(&matrix.name);
    name.rsplit_once(".lora_").map_or(name, |(module, _)| module)
}

/// What PEFT puts before the names of a model's modules.
const PREFIX: &str = "base_model.model.";

/// The names of the matrices of a module in a file.
pub(super) fn matrix_names(module: &str) -> [String; 2] {
    ["A", "B"].map(|matrix| format!("{PREFIX}{module}.lora_{matrix}.weight"))
}
