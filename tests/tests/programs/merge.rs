//! `spag merge`: the sum of a model and an adapter is a checkpoint like any other.

use std::fs;

use spag_model::Checkpoint;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::checkpoint::load_model;
use spag_tests::{fixture, json, program, run};

#[test]
fn sum_is_a_checkpoint_with_the_log_probabilities_of_peft() {
    let folder = tempfile::tempdir().unwrap();
    let (model, adapter) = (fixture("tiny-llama"), fixture("peft/patterns"));
    let sum = folder.path().join("sum");
    let merge = || {
        let mut command = program("spag");
        command.arg("merge").arg("--model").arg(&model).arg("--adapter").arg(&adapter).arg("--output_dir").arg(&sum);
        command
    };
    let (out, _) = run(&mut merge(), 0);
    assert!(out.starts_with("11560 parameters of the adapter added"), "{out}");
    let expected = json(adapter.join("expected.json"));
    let ids: Vec<u32> = serde_json::from_value(expected["ids"].clone()).unwrap();
    let wanted: Vec<f64> = serde_json::from_value(expected["log_probs"].clone()).unwrap();
    let targets = Targets { rows: (0..7).collect(), tokens: ids[1..].to_vec(), ..Targets::default() };
    let found = load_model(&sum).unwrap().log_probs(&PackedBatch::new([&ids[..]]), &targets).unwrap();
    for (found, wanted) in found.into_iter().zip(wanted) {
        assert!((f64::from(found) - wanted).abs() < 1e-5 * wanted.abs(), "{found} {wanted}");
    }
    // With its tokenizer, and bf16 if it is asked for.
    assert!(Checkpoint::load(&sum).is_ok());
    run(merge().args(["--dtype", "bf16", "--overwrite_output_dir", "True"]), 0);
    assert_eq!(json(sum.join("config.json"))["torch_dtype"], "bfloat16");
}

#[test]
fn adapter_for_another_model_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sum = folder.path().join("sum");
    for (model, adapter, expected) in [
        (fixture("tiny-llama"), fixture("tiny-llama"), "adapter_config.json"),
        (spag_tests::root().join("data/tiny-llama"), fixture("peft/patterns"), "lora_"),
        (fixture("peft/patterns"), fixture("peft/patterns"), "config.json"),
    ] {
        let mut command = program("spag");
        command.arg("merge").arg("--model").arg(&model).arg("--adapter").arg(&adapter).arg("--output_dir").arg(&sum);
        let (_, err) = run(&mut command, 2);
        assert!(err.contains(expected), "{err}");
        assert!(fs::metadata(&sum).is_err());
    }
}
