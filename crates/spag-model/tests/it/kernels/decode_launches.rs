//! Launches of a decoding pass: no kernel of a block only adds a residual, rotates, or copies.

use std::sync::Arc;

use spag_emulator::{Emulator, Place};
use spag_model::dtype::WeightDtype;
use spag_model::generate::Prompt;
use spag_model::{Checkpoint, Engine, Generate, GenerationConfig, Request};
use spag_ops::kernels;

use super::{copied, small_engine};
use crate::common::checkpoint;

/// The launches of a pass with one row for each of `requests`, and the number of blocks.
fn launches(dtype: WeightDtype, requests: u32) -> (Vec<String>, usize) {
    let Checkpoint { model, tokenizer } = checkpoint();
    let model = copied(&model.to_dtype(dtype).unwrap(), &Place::cpu());
    let blocks = model.config().architecture.num_hidden_layers;
    let emulator = Arc::new(Emulator::default());
    kernels::using(emulator.clone(), || {
        let mut engine = Engine::new(&Checkpoint { model, tokenizer }, small_engine(40, 16)).unwrap();
        let config = Arc::new(GenerationConfig { max_new_tokens: 4, min_new_tokens: 4, ..GenerationConfig::default() });
        let prompt = |first: u32| Prompt::Tokens((first..first + 2).collect());
        let request = |first| Request { prompt: prompt(first), seed: 1, config: config.clone() };
        engine.generate((1..=requests).map(request).collect()).unwrap();
        assert_eq!(engine.capture_failure(), None);
    });
    (emulator.last_graph(), blocks)
}

/// A pass of blocks, final norm and output head.
fn pass(blocks: usize, dtype: &str) -> Vec<String> {
    let [norm, append, attend, combine, activate] = [
        "rms_norm_forward_1",
        "paged_attention_append_rotated_vectors",
        "paged_attention_rows",
        "paged_attention_combine",
        "swiglu_forward_joined",
    ]
    .map(|name| format!("{name}_{dtype}"));
    let block = [&norm, "gemm", &append, &attend, &combine, "gemm", &norm, "gemm", &activate, "gemm"];
    let end = [norm.as_str(), "gemm", "copy"];
    std::iter::repeat_n(block, blocks).flatten().chain(end).map(str::to_owned).collect()
}

#[test]
fn products_are_added_onto_the_residual() {
    for (dtype, name, requests) in
        [(WeightDtype::Bf16, "bf16", 1), (WeightDtype::Bf16, "bf16", 9), (WeightDtype::F32, "f32", 2)]
    {
        let (found, blocks) = launches(dtype, requests);
        assert_eq!(found, pass(blocks, name), "{requests} requests in {name}");
    }
}
