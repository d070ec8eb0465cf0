//! Training in one process.

use std::fs;
use std::path::Path;
use std::process::Command;

use spag_tests::{json_lines, program, run};

use crate::model::{few_samples, small_model};

/// Four steps of four micro-batches, which ranks share.
pub(crate) fn train(work: &Path, output: &Path, micro_batches: usize, more: &str) -> Command {
    let mut command = program("spag-train");
    command.arg("--model_name_or_path").arg(work.join("model")).arg("--train_data_path").arg(work.join("samples.json"));
    command.arg("--output_dir").arg(output).arg("--gradient_accumulation_steps").arg(micro_batches.to_string());
    let settings = "--train_method OfflinePO --lm_kl_coeff 0.2 --lm_sft_coeff 0.5 --per_device_train_batch_size 1 --max_length 48 \
        --learning_rate 1e-3 --num_train_epochs 1 --data_order sequential";
    command.args(settings.split_whitespace()).args(more.split_whitespace());
    command
}

/// A folder with the model and the samples.
pub(crate) fn prepared() -> tempfile::TempDir {
    let work = tempfile::tempdir().unwrap();
    small_model(work.path());
    few_samples(work.path());
    work
}

/// The losses of a run, and the bytes of its model.
pub(crate) fn end(output: &Path) -> (Vec<f64>, Vec<u8>) {
    let losses = json_lines(output.join("metrics.jsonl")).iter().map(|line| line["loss"].as_f64().unwrap()).collect();
    (losses, fs::read(output.join("model.safetensors")).unwrap())
}

pub(crate) fn assert_near(got: &[f64], want: &[f64], what: &str) {
    assert_eq!((got.len(), want.len()), (4, 4), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 2e-5 * want.abs().max(1.0), "{what}: {got} {want}");
    }
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_losses_are_those_of_the_cpu_and_offload_does_not_change_a_bit() {
    let work = prepared();
    let trained = |name: &str, more: &str| {
        let output = work.path().join(name);
        run(&mut train(work.path(), &output, 4, more), 0);
        end(&output)
    };
    let cpu = trained("cpu", "--device cpu");
    let device = trained("cuda", "--device cuda --offload_optimizer none");
    assert_near(&device.0, &cpu.0, "a device");
    for (name, more) in [
        ("offloaded", "--device cuda --offload_optimizer cpu"),
        ("everything", "--device cuda --zero_stage 3 --offload_optimizer cpu --offload_param cpu"),
    ] {
        assert!(trained(name, more) == device, "{name}: other bits");
    }
    let rounded = trained("rounded", "--device cuda --optim_grad_dtype bf16 --offload_optimizer none");
    let copied = trained("copied", "--device cuda --optim_grad_dtype bf16 --offload_optimizer cpu");
    assert!(rounded == copied, "gradients copied in bf16: other bits");
    assert!(rounded.0[0] == device.0[0] && rounded.1 != device.1, "gradients are not rounded");
    // An adapter, and recomputation in bf16, only run to their ends.
    for (name, more) in
        [("adapter", "--device cuda --lora_r 4"), ("bf16", "--device cuda --bf16 True --gradient_checkpointing True")]
    {
        let output = work.path().join(name);
        run(&mut train(work.path(), &output, 4, more), 0);
        assert_eq!(json_lines(output.join("metrics.jsonl")).len(), 4, "{name}");
    }
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_a_run_continues_with_the_same_bits() {
    let work = prepared();
    let (whole, parts) = (work.path().join("whole"), work.path().join("parts"));
    run(&mut train(work.path(), &whole, 4, "--device cuda"), 0);
    let half = "--device cuda --save_strategy steps --save_steps 2 --max_steps 4";
    run(&mut train(work.path(), &parts, 4, half), 0);
    let checkpoint = parts.join("checkpoint-2");
    fs::remove_file(parts.join("model.safetensors")).unwrap();
    fs::remove_dir_all(parts.join("checkpoint-4")).ok();
    let more = format!("{half} --resume_from_checkpoint {}", checkpoint.display());
    run(&mut train(work.path(), &parts, 4, &more), 0);
    assert!(end(&whole).1 == end(&parts).1, "other bits after a resume");
}

#[test]
#[ignore = "needs the stand-in for NVIDIA's libraries: scripts/stand-in.sh check"]
fn stand_in_steps_are_timed_with_and_without_offload() {
    let work = prepared();
    for (more, places) in [
        ("", r#""offload_optimizer":"none","offload_param":"none""#),
        ("--offload_optimizer cpu", r#""offload_optimizer":"cpu","offload_param":"none""#),
        ("--zero_stage 3 --offload_param cpu", r#""offload_optimizer":"cpu","offload_param":"cpu""#),
    ] {
        let mut command = program("spag");
        command.args(
            "bench train --device cuda --batch 1 --seq 16 --steps 1 --warmup 1 --model_name_or_path".split_whitespace(),
        );
        command.arg(work.path().join("model")).args(more.split_whitespace());
        let (line, _) = run(&mut command, 0);
        assert!(line.contains(places), "{line}");
    }
}
