//! `spag bench generate`: a line of JSON for each batch size.

use serde_json::Value;
use spag_tests::{program, run};

const MODEL: [&str; 4] = ["bench", "generate", "--model", "data/tiny-llama"];

#[test]
fn every_batch_size_has_its_speeds_on_a_line() {
    let mut command = program("spag");
    command.args(MODEL).args(["--prompt", "40", "--new_tokens", "6", "--batch", "1,3", "--rounds", "1"]);
    let (out, _) = run(&mut command, 0);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let batches: Vec<u64> = lines.iter().map(|line| line["batch"].as_u64().unwrap()).collect();
    assert_eq!(batches, [1, 3]);
    for line in &lines {
        for speed in ["prefill_tokens_per_s", "decode_tokens_per_s", "peak_gib"] {
            assert!(line[speed].as_f64().is_some_and(|value| value > 0.0), "{speed}: {line}");
        }
        let kernels = ["portable", "avx2", "avx512", "avx512bf16", "amx", "cuda"];
        assert!(kernels.contains(&line["kernels"].as_str().unwrap()), "{line}");
        assert!(line["kernels"] == "cuda" || line["cpu_path"] == line["kernels"], "{line}");
        assert_eq!((&line["prompt"], &line["new_tokens"]), (&40.into(), &6.into()));
    }
}

#[test]
fn prompts_beyond_the_positions_and_single_tokens_are_refused() {
    let (_, err) = run(program("spag").args(MODEL).args(["--prompt", "380"]), 2);
    assert!(err.contains("--prompt 380: with --new_tokens 64 it is longer than the 384 positions"), "{err}");
    let (_, err) = run(program("spag").args(MODEL).args(["--new_tokens", "1"]), 2);
    assert!(err.contains("--new_tokens"), "{err}");
}

#[test]
fn a_variable_forces_the_kernels() {
    for dtype in ["f32", "bf16"] {
        let mut command = program("spag");
        command.args(MODEL).args(["--prompt", "10", "--new_tokens", "2", "--batch", "2", "--rounds", "1"]);
        let (out, _) = run(command.args(["--device", "cpu", "--dtype", dtype]).env("SPAG_CPU", "portable"), 0);
        let line: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&line["kernels"], &line["cpu_path"]), (&"portable".into(), &"portable".into()));
    }
    let mut command = program("spag");
    let (_, err) = run(command.args(MODEL).args(["--device", "cpu"]).env("SPAG_CPU", "mmx"), 2);
    assert!(
        err.contains(
            "SPAG_CPU=mmx: expected portable, neon, avx2, avx512, avx512bf16 or amx; this processor has portable"
        ),
        "{err}"
    );
}

#[test]
fn quantised_weights_are_named_and_invalid_formats_refused() {
    let short = ["--prompt", "10", "--new_tokens", "2", "--batch", "2", "--rounds", "1", "--device", "cpu"];
    for (quantize, dtype) in [("q8_0", "float32"), ("q4_0", "bfloat16"), ("q4_k", "float32")] {
        let mut command = program("spag");
        command.args(MODEL).args(short).args(["--quantize", quantize, "--dtype", dtype]);
        let (out, _) = run(&mut command, 0);
        let line: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&line["quantize"], &line["dtype"]), (&quantize.into(), &dtype.into()));
    }
    let (_, err) = run(program("spag").args(MODEL).args(["--quantize", "q5_1"]), 2);
    let expected =
        "unknown format of quantised weights \"q5_1\"; expected one of q8_0, q6_k, q5_0, q4_1, q4_0, q4_k, or stored";
    assert!(err.contains(expected), "{err}");
    let (_, err) = run(program("spag").args(MODEL).args(["--quantize", "stored"]), 2);
    assert!(err.contains("it is a folder, whose weights are not quantised"), "{err}");
    let (_, err) = run(program("spag").args(MODEL).args(["--quantize", "q8_0", "--device", "cuda"]), 2);
    assert!(err.contains("cuda"), "{err}");
    let train = ["--model_name_or_path", "data/tiny-llama", "--train_data_path", "none.json", "--output_dir", "none"];
    let (_, err) = run(program("spag-train").args(train).args(["--quantize", "q8_0"]), 2);
    assert!(err.contains("`quantize`: quantised weights are trained by an adapter over them only"), "{err}");
}
