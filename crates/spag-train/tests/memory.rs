//! What a run on a CPU is planned to need, against what it takes.

use cap::Cap;
use spag_model::{
    Activations, Computer, Llama, LlamaConfig, OptimizerPlace, RankMemory, Spread, TrainingSettings, WeightDtype, gib,
};
use spag_train::{Error, TimingConfig, time_steps};

/// Counts every byte that is held.
#[global_allocator]
static HELD: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

fn model(layers: usize, vocabulary: usize, kv_heads: usize) -> LlamaConfig {
    let json = format!(
        r#"{{"hidden_size": 192, "intermediate_size": 512, "vocab_size": {vocabulary}, "num_hidden_layers": {layers},
            "num_attention_heads": 6, "num_key_value_heads": {kv_heads}, "max_position_embeddings": 256}}"#
    );
    serde_json::from_str(&json).unwrap()
}

/// Each needs more than the one before: the highest mark is its own.
#[test]
fn planned_memory_is_what_a_run_takes() {
    use Activations::{Keep, Recompute};
    use WeightDtype::{Bf16, F32};
    let cases = [
        (model(6, 500, 6), F32, Recompute, 4),
        (model(6, 500, 2), F32, Recompute, 8),
        (model(6, 500, 6), Bf16, Recompute, 10),
        (model(6, 2000, 6), F32, Keep, 8),
        (model(6, 12_000, 6), F32, Recompute, 12),
        (model(6, 12_000, 6), F32, Keep, 12),
        (model(6, 12_000, 3), Bf16, Keep, 20),
    ];
    let mut before = 0;
    let mut wrong = Vec::new();
    for (config, dtype, activations, batch) in cases {
        let held = HELD.allocated();
        let settings = TrainingSettings { dtype, tokens: batch * 128, activations, optimizer: OptimizerPlace::Device };
        let planned = RankMemory::new(&config, &settings, &Spread { computer: Computer::Cpu, ..Spread::single() });
        let timing = TimingConfig {
            batch,
            seq: 128,
            steps: 2,
            warmup: 0,
            vocab_size: config.vocab_size,
            seed: 1,
            gradient_checkpointing: activations == Recompute,
            accumulation: 1,
        };
        // Read from a file, a model is never there in two number formats; here the first is gone before training.
        let load = || Ok::<_, Error>(Llama::init(&config, 1)?.to_dtype(dtype)?);
        time_steps(load, None, &timing).unwrap();
        let highest = HELD.max_allocated();
        assert!(highest > before, "case {dtype:?} {activations:?} {batch} needs less than the one before it");
        before = highest;
        let (taken, planned) = ((highest - held) as u64, planned.on_device());
        let ratio = planned as f64 / taken as f64;
        let line = format!(
            "{dtype} {activations:?} batch {batch}: {} planned, {} taken, {ratio:.3}",
            gib(planned),
            gib(taken)
        );
        eprintln!("{line}");
        if !(0.9..=1.1).contains(&ratio) {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
