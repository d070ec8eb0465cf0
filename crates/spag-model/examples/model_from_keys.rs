//! Builds a model of a family from the keys of a `config.json`, and runs and differentiates it without files.

use candle_core::{Device, Tensor};
use serde_json::json;
use spag_model::batch::PackedBatch;
use spag_model::config::{HeadNorm, Norms};
use spag_model::{Model, ModelConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = json!({
        "model_type": "olmo2", "hidden_size": 32, "intermediate_size": 64, "vocab_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 64, "tie_word_embeddings": false,
    });
    let config = ModelConfig::from_keys(keys.as_object().cloned().unwrap_or_default())?;
    // These fields alone define the family. Passes, layout, names in checkpoints and memory formulas are derived.
    assert_eq!((config.architecture.norms, config.architecture.head_norm), (Norms::After, HeadNorm::WholeWidth));
    let model = Model::init(&config, 1)?;
    let logits: Tensor = model.logits(&PackedBatch::new([[3, 1, 4, 1, 5].as_slice()]), &[4])?;
    println!("{} parameters, logits {:?}", model.parameters().layout().len(), logits.shape());
    assert_eq!((logits.dims(), logits.device().location()), ([1, 48].as_slice(), Device::Cpu.location()));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn family_follows_from_the_keys() {
        super::main().unwrap();
    }
}
