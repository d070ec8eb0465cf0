//! Names of an adapter's matrices in PEFT files, and of their modules.

use crate::params::View;

/// The module of a matrix: `model.layers.0.mlp.up_proj` of `base_model.model.model.layers.0.mlp.up_proj.lora_A.weight`.
pub(super) fn module_of(matrix: &View) -> &str {
    let name = matrix.name.strip_prefix(PREFIX).unwrap_or(&matrix.name);
    name.rsplit_once(".lora_").map_or(name, |(module, _)| module)
}

/// PEFT's prefix of module names.
const PREFIX: &str = "base_model.model.";

/// Where a multimodal checkpoint has the text model, and where transformers and PEFT have it since 4.52.
const TEXT_MODEL: (&str, &str) = ("language_model.model.", "model.language_model.");

/// PEFT's module of a weight's tensor; `None` for other tensors.
pub(super) fn module_of_weight(tensor: &str) -> Option<String> {
    let (stored, loaded) = TEXT_MODEL;
    let module = tensor.strip_suffix(".weight")?;
    Some(module.strip_prefix(stored).map_or_else(|| module.to_owned(), |rest| format!("{loaded}{rest}")))
}

/// The weight's tensor of a module: the inverse of [`module_of_weight`].
pub(super) fn weight_of(module: &str) -> String {
    let (stored, loaded) = TEXT_MODEL;
    match module.strip_prefix(loaded) {
        Some(rest) => format!("{stored}{rest}.weight"),
        None => format!("{module}.weight"),
    }
}

/// The names of a module's matrices in a file.
pub(super) fn matrix_names(module: &str) -> [String; 2] {
    ["A", "B"].map(|matrix| format!("{PREFIX}{module}.lora_{matrix}.weight"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_multimodal_models_have_the_names_of_peft() {
        for (tensor, module) in [
            ("model.layers.3.mlp.up_proj.weight", "model.layers.3.mlp.up_proj"),
            ("language_model.model.layers.3.mlp.up_proj.weight", "model.language_model.layers.3.mlp.up_proj"),
        ] {
            assert_eq!(module_of_weight(tensor).as_deref(), Some(module));
            assert_eq!(weight_of(module), tensor);
        }
        assert_eq!(module_of_weight("model.layers.3.self_attn.q_proj.bias"), None);
    }
}
