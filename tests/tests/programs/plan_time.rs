//! The seconds of a step that `spag plan` prints: their parts, and the samples that they are of.

use serde_json::{Value, json};
use spag_tests::{fixture, program, run};

const MODEL: &str = "configs/llama2-7b/config.json";
const STEP: [&str; 6] = ["--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "4", "--bf16", "True"];

fn plan(args: &[&str]) -> Value {
    let (out, _) = run(program("spag").arg("plan").args(args).arg("--json"), 0);
    serde_json::from_str(&out).unwrap()
}

fn on_eight(more: &[&str]) -> Value {
    plan(&[&[MODEL, "--gpus", "8", "--gpu", "a100-80"], &STEP[..], more].concat())
}

/// The seconds of a plan by name.
fn seconds(plan: &Value, stage: u64, optimizer: bool, parameters: bool) -> impl Fn(&str) -> f64 + use<> {
    let place = json!([stage, optimizer, parameters]);
    let plans = plan["plans"].as_array().unwrap();
    let is = |plan: &&Value| json!([plan["zero_stage"], plan["offload_optimizer"], plan["offload_param"]]) == place;
    let seconds = plans.iter().find(is).unwrap()["seconds"].clone();
    move |name| seconds[name].as_f64().unwrap_or_else(|| panic!("{name}: {seconds}"))
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{found}, not {expected}");
}

/// 6,738,415,616 parameters in eight shards, whose layers are multiples of eight elements.
#[test]
fn parts_of_a_step_follow_from_bytes() {
    let (all, whole) = (6_738_415_616.0, on_eight(&[]));
    let links = 300e9 * 0.7;
    let part = 7.0 / 8.0 * all / links;
    for (stage, pass, after, updated) in [(0, 4.0, 4.0, all), (1, 4.0, 2.0, all / 8.0), (3, 8.0, 0.0, all / 8.0)] {
        let of = seconds(&whole, stage, false, false);
        near(of("links"), 4.0 * pass * part);
        assert!((of("exchange") - after * part).abs() < 1e-3 * part);
        // Gradients are read for their norm and read again; two moments and master weights are read and written.
        near(of("update"), (8.0 + 24.0 + 2.0) * updated / (2039e9 * 0.75));
        assert_eq!([of("host_update"), of("gradients_down"), of("parameters_up"), of("host_links")], [0.0; 4]);
        // Weights, moments and master weights at 1 GB/s, once in 500 steps, beside which they are written.
        near(of("checkpoint"), 14.0 * all / 1e9);
        assert_eq!(of("checkpoints"), 0.0);
        near(of("passes"), of("compute").max(of("links")));
        near(of("step"), of("passes") + of("update") + of("exchange") + of("checkpoints"));
    }
    let host = seconds(&whole, 3, true, false);
    near(host("gradients_down"), 4.0 * all / 8.0 / (32e9 * 0.7));
    near(host("parameters_up"), 2.0 * all / 8.0 / (32e9 * 0.7));
    // All ranks of the host share its memory: gradients and parameters pass through, moments and master weights change.
    near(host("host_update"), (8.0 + 24.0 + 4.0) * all / (204.8e9 * 0.75));
    let copies = host("host_update").max(host("gradients_down"));
    near(host("update"), copies + host("device_update"));
    let halved = seconds(&on_eight(&["--optim_grad_dtype", "bf16"]), 3, true, false);
    near(2.0 * halved("gradients_down"), host("gradients_down"));
    let parameters = seconds(&whole, 3, true, true);
    near(parameters("host_links"), 4.0 * 2.0 * 2.0 * all / 8.0 / (32e9 * 0.7));
    assert_eq!(parameters("parameters_up"), 0.0);
}

#[test]
fn checkpoints_count_by_their_steps() {
    let of = |more: &[&str]| {
        let of = seconds(&on_eight(more), 3, false, false);
        (of("checkpoints"), of("step"), of("checkpoint"))
    };
    // A step waits for what the steps between two checkpoints are too short for.
    let (waits, step, checkpoint) = of(&["--save_steps", "2"]);
    near(waits, checkpoint / 2.0 - of(&[]).1);
    near(step, checkpoint / 2.0);
    for more in [&["--save_steps", "500"][..], &["--save_strategy", "no"], &["--save_strategy", "epoch"]] {
        assert_eq!(of(more).0, 0.0, "{more:?}");
    }
    let (text, _) = run(program("spag").args(["plan", MODEL, "--gpus", "8", "--save_strategy", "epoch"]), 0);
    assert!(text.contains("one an epoch, not in the step"), "{text}");
}

#[test]
fn short_samples_take_fewer_passes_of_uneven_ranks() {
    let (whole, short) = (on_eight(&[]), on_eight(&["--mean_length", "500"]));
    let (all, few) = (&whole["workload"], &short["workload"]);
    assert_eq!((&all["passes"], &all["rank_load"]), (&json!(4.0), &json!(1.0)));
    near(all["tokens"].as_f64().unwrap(), 64.0 * 2048.0);
    let tokens = few["tokens"].as_f64().unwrap();
    assert!((tokens / (64.0 * 500.0) - 1.0).abs() < 0.01, "{few}");
    assert!(few["passes"].as_f64().unwrap() < 2.0, "{few}");
    // Long samples have more of the tokens, and one rank has the longest.
    assert!(few["context"].as_f64().unwrap() > 600.0, "{few}");
    let load = few["rank_load"].as_f64().unwrap();
    assert!(load > 1.0 && load < 1.5, "{few}");
    let [whole, short] = [&whole, &short].map(|plan| seconds(plan, 3, false, false));
    assert!(short("compute") < 0.4 * whole("compute") && short("links") < 0.6 * whole("links"));
    near(short("imbalance"), short("compute") * (1.0 - 1.0 / load));
    let memory = |plan: &Value| plan["plans"][0]["gpu_bytes"].clone();
    assert_eq!(memory(&on_eight(&["--mean_length", "9"])), memory(&on_eight(&[])), "memory is that of --max_length");
}

#[test]
fn samples_of_a_file_are_tokenized_and_dealt() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<Value> = (0..64)
        .map(|row| json!({"query": "Do you like it? ".repeat(1 + row % 7), "target": "I like the horse. ".repeat(1 + row % 5)}))
        .collect();
    let samples = folder.path().join("samples.json");
    std::fs::write(&samples, serde_json::to_string(&rows).unwrap()).unwrap();
    let model = fixture("tiny-llama");
    let config = model.join("config.json");
    let lone = folder.path().join("config.json");
    std::fs::copy(&config, &lone).unwrap();
    let step = ["--gpus", "4", "--per_device_train_batch_size", "1", "--max_length", "384"];
    let of = |model: &std::path::Path, more: &[&str]| {
        let files = ["--train_data_path", samples.to_str().unwrap()];
        plan(&[&["--model_name_or_path", model.to_str().unwrap()], &files, &step[..], more].concat())["workload"]
            .clone()
    };
    let tokenized = of(&model, &[]);
    assert_eq!(tokenized, of(&config, &[]), "the folder of config.json has the tokenizer");
    assert!(tokenized["lengths"].as_str().unwrap().contains("64 samples, by the model's tokenizer"), "{tokenized}");
    let load = |workload: &Value| workload["rank_load"].as_f64().unwrap();
    let more = of(&model, &["--gradient_accumulation_steps", "4"]);
    assert!(load(&tokenized) > 1.02 && load(&more) < load(&tokenized), "{tokenized} {more}");
    near(more["tokens"].as_f64().unwrap(), 4.0 * tokenized["tokens"].as_f64().unwrap());
    // Of samples that begin alike, the beginning is computed once.
    let tree = of(&model, &["--packing", "tree", "--gradient_accumulation_steps", "4"]);
    assert!(tree["tokens"].as_f64().unwrap() < 0.9 * more["tokens"].as_f64().unwrap(), "{tree}");
    let estimated = of(&lone, &[]);
    assert!(estimated["lengths"].as_str().unwrap().starts_with("assumed: 4 bytes of text a token"), "{estimated}");
    let bytes: usize =
        rows.iter().map(|row| row["query"].as_str().unwrap().len() + row["target"].as_str().unwrap().len()).sum();
    let tokens = estimated["tokens"].as_f64().unwrap() * 16.0;
    assert!(tokens >= bytes as f64 / 4.0 && tokens < bytes as f64 / 4.0 + 64.0, "{tokens} of {bytes}");
    let (text, _) = run(
        program("spag")
            .args(["plan", "--train_data_path", samples.to_str().unwrap(), "--model_name_or_path"])
            .arg(&model)
            .args(step),
        0,
    );
    assert!(text.contains("products of the busiest rank, 1."), "{text}");
}

#[test]
fn contradicting_and_missing_samples_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.json");
    std::fs::write(&empty, "[]").unwrap();
    let empty = empty.to_str().unwrap();
    for (args, names) in [
        (vec!["--mean_length", "3000"], vec!["--mean_length 3000", "--max_length 2048"]),
        (vec!["--mean_length", "500", "--train_data_path", empty], vec!["--mean_length 500", "--train_data_path"]),
        (vec!["--train_data_path", empty], vec!["--train_data_path", "no samples"]),
        (vec!["--train_data_path", "missing.json"], vec!["missing.json"]),
        (vec!["--mean_length", "500", "--gpus", "8192"], vec!["--mean_length", "too many to deal to 8192 ranks"]),
    ] {
        let (out, err) = run(program("spag").args(["plan", MODEL]).args(&args), 2);
        assert!(out.is_empty() && names.iter().all(|name| err.contains(name)), "{args:?}: {err}");
    }
}

/// A GPU with room keeps the activations of as many blocks as fit, and recomputes the others.
#[test]
fn kept_activations_make_steps_shorter() {
    let plan = |more: &[&str]| on_eight(&[&["--gradient_checkpointing", "True"], more].concat());
    let of = |plan: &Value| {
        let plans = plan["plans"].as_array().unwrap();
        let found = plans.iter().find(|plan| plan["recommended"] == json!(true)).unwrap();
        let compute = found["seconds"]["compute"].as_f64().unwrap();
        (found["keep_activations"].as_u64().unwrap(), compute, found["gpu_bytes"].as_u64().unwrap())
    };
    let [none, half, all] = ["0", "16", "auto"].map(|kept| of(&plan(&["--keep_activations", kept])));
    assert_eq!((none.0, half.0, all.0), (0, 16, 32));
    assert!(none.2 < half.2 && half.2 < all.2, "{none:?}, {half:?}, {all:?}");
    near(half.1, (none.1 + all.1) / 2.0);
    let (_, error) =
        run(program("spag").args(["plan", MODEL, "--gradient_checkpointing", "True", "--keep_activations", "33"]), 2);
    assert!(error.contains("keep_activations") && error.contains("32 blocks"), "{error}");
}

/// Four hosts of eight GPUs: shards within hosts send the gradients' sums between hosts once a step.
#[test]
fn shards_within_hosts_are_compared() {
    let flags = ["--gpus", "32", "--gpu", "a100-80", "--gradient_checkpointing", "True", "--mean_length", "500"];
    let plan = plan(&[&[MODEL], &flags[..], &STEP[..]].concat());
    let plans = plan["plans"].as_array().unwrap();
    let of = |within: &str| {
        let is = |plan: &&Value| {
            json!([plan["zero_stage"], plan["offload_optimizer"], plan["shard_within"]]) == json!([3, false, within])
        };
        plans.iter().find(is).unwrap()["seconds"].clone()
    };
    let (all, host) = (of("all"), of("host"));
    let seconds = |of: &Value, name: &str| of[name].as_f64().unwrap();
    assert!(seconds(&host, "links") < seconds(&all, "links") / 5.0, "{host}, {all}");
    // 200 Gb/s, of which 70% are reached.
    near(seconds(&host, "exchange"), 8.0 * 6_738_415_616.0 * 3.0 / 4.0 / (25e9 * 0.7));
    assert_eq!(seconds(&all, "exchange"), 0.0);
}
