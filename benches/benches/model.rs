//! Benchmark of new weights in an engine. `spag bench train`, `generate` and `play` measure the rest of a model's work.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spag_model::dtype::WeightDtype;
use spag_model::generate::MemoryBudget;
use spag_model::{Checkpoint, Engine, EngineConfig, Model, ModelConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// New weights in an engine with the shape of SmolLM2-135M, in both number formats, from f32: bytes read and written.
fn refresh(c: &mut Criterion) {
    let config: ModelConfig = serde_json::from_str(
        r#"{"hidden_size": 576, "intermediate_size": 1536, "vocab_size": 49152, "num_hidden_layers": 30,
            "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 512,
            "tie_word_embeddings": true}"#,
    )
    .expect("a sound configuration");
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tiny-llama");
    let tokenizer = Checkpoint::load(small).expect("the base model is part of the repository").tokenizer;
    let model = Model::init(&config, 1).expect("memory");
    let mut group = c.benchmark_group("refresh");
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let packed = Checkpoint { model: model.to_dtype(dtype).expect("memory"), tokenizer: tokenizer.clone() };
        let setting = EngineConfig::new(&config, 1, MemoryBudget::host());
        let mut engine = Engine::new(&packed, setting).expect("sound settings");
        let bytes = model.parameters().layout().len() * (4 + dtype.bytes());
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("135M, {dtype} from f32"), |b| {
            b.iter(|| engine.refresh(model.parameters(), 1).expect("the same architecture"));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = refresh
}
criterion_main!(benches);
