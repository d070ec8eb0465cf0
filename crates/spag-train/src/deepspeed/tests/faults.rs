//! Every kind of problem is reported.

use std::{error::Error, fs, path::Path};

use serde_json::json;

use super::{super::*, Outcome, at, config, problems, resolved, run};

fn load(text: &str) -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("zero.json");
    fs::write(&path, text)?;
    let error = DeepSpeed::load(&path, &run(&config())).err().ok_or("no error")?.to_string();
    Ok(error.strip_prefix(&path.display().to_string()).ok_or("no path")?.to_owned())
}

#[test]
fn value_that_contradicts_a_flag_is_reported() {
    for (key, value, flag, flag_value) in [
        ("train_batch_size", json!(64), "--per_device_train_batch_size × --gradient_accumulation_steps", "128"),
        ("train_micro_batch_size_per_gpu", json!(4), "--per_device_train_batch_size", "2"),
        ("gradient_accumulation_steps", json!(1), "--gradient_accumulation_steps", "8"),
        ("gradient_clipping", json!(0.5), "--max_grad_norm", "1.0"),
        ("bf16.enabled", json!(false), "--bf16", "true"),
        ("bfloat16.enabled", json!(false), "--bf16", "true"),
        ("communication_data_type", json!("bf16"), "--reduce_dtype", "\"fp32\""),
        ("optimizer.params.lr", json!(2e-6), "--learning_rate", "5e-6"),
        ("optimizer.params.betas", json!([0.9, 0.95]), "--adam_beta1, --adam_beta2", "[0.9,0.999]"),
        ("optimizer.params.eps", json!(1e-6), "--adam_epsilon", "1e-8"),
        ("optimizer.params.weight_decay", json!(0.1), "--weight_decay", "0.0"),
    ] {
        let found = problems(at(key, value.clone()));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("`{key}` is {value}, but {flag}")), "{found:?}");
        assert!(found[0].contains(&format!(" is {flag_value};")), "{found:?}");
    }
    for (key, value) in [("warmup_max_lr", json!(1.0)), ("warmup_num_steps", json!(31)), ("total_num_steps", json!(9))]
    {
        let found = problems(json!({"scheduler": {"type": "WarmupDecayLR", "params": {key: value}}}));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("`scheduler.params.{key}` is {value}, but ")), "{found:?}");
    }
}

#[test]
fn unsupported_features_are_refused() {
    for (key, value) in [
        ("fp16.enabled", json!(true)),
        ("amp", json!({"enabled": true})),
        ("sparse_attention", json!({"block": 16})),
        ("pipeline.stages", json!(2)),
        ("activation_checkpointing.partition_activations", json!(true)),
        ("activation_checkpointing.cpu_checkpointing", json!(true)),
        ("curriculum_learning", json!({"enabled": true})),
        ("compression_training", json!({"weight_quantization": {"shared_parameters": {"enabled": true}}})),
        ("communication_data_type", json!("fp16")),
        ("data_types.grad_accum_dtype", json!("bf16")),
        ("optimizer.type", json!("OneBitAdam")),
        ("optimizer.params.max_grad_norm", json!(1.0)),
        ("scheduler.type", json!("OneCycle")),
        ("zero_optimization.zero_quantized_weights", json!(true)),
        ("zero_optimization.zero_hpz_partition_size", json!(8)),
        ("zero_optimization.mics_shard_size", json!(4)),
        ("zero_optimization.cpu_offload", json!(true)),
        ("zero_optimization.offload_optimizer.device", json!("nvme")),
        ("zero_optimization.offload_param.device", json!("nvme")),
        ("zero_optimization.offload_optimizer.ratio", json!(0.3)),
    ] {
        let found = problems(at(key, value));
        assert!(found.iter().any(|problem| problem.starts_with(&format!("`{key}`: "))), "{key}: {found:?}");
        assert!(found.iter().all(|problem| !problem.contains("unknown")), "{key}: {found:?}");
    }
}

#[test]
fn parameters_of_a_refused_optimizer_are_not_reported() {
    let one_bit = json!({"params": {"freeze_step": 400, "cuda_aware": false}, "type": "OneBitAdam"});
    let cycle = json!({"params": {"cycle_min_lr": 0.1}, "type": "OneCycle"});
    assert_eq!(problems(json!({"optimizer": one_bit, "scheduler": cycle})).len(), 2);
}

#[test]
fn misspelled_keys_are_reported_in_sections_and_named_in_the_note_at_the_top() {
    for (key, nearest) in [
        ("zero_optimization.offload_params", "zero_optimization.offload_param"),
        ("zero_optimization.stgae", "zero_optimization.stage"),
        ("zero_optimization.offload_optimizer.devise", "zero_optimization.offload_optimizer.device"),
        // Right name, wrong place.
        ("optimizer.lr", "optimizer.params.lr"),
    ] {
        assert_eq!(problems(at(key, json!(1))), [format!("`{key}` is unknown; did you mean `{nearest}`?")]);
    }
    for (key, nearest) in [
        ("gradient_cliping", "gradient_clipping"),
        ("zero_optimisation", "zero_optimization"),
        ("stage", "zero_optimization.stage"),
    ] {
        let note = format!("`{key}` (did you mean `{nearest}`?)");
        assert_eq!(resolved(at(key, json!(1))).without_effect(), Some(note));
    }
    let many: Vec<(String, Value)> = (0..100).map(|number| (format!("key_{number}"), json!(number))).collect();
    let note = resolved(Value::Object(many.into_iter().collect())).without_effect().unwrap();
    assert!(note.starts_with("`key_0`, `key_1`") && note.ends_with("`key_31` and 68 more"), "{note}");
}

#[test]
fn contradictory_settings_are_reported() {
    let cpu = json!({"device": "cpu"});
    for (file, expected) in [
        (
            json!({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8}),
            "2 × 8 × 8 = 128",
        ),
        (
            json!({"zero_optimization": {"stage": 2, "offload_param": cpu}}),
            "`zero_optimization.stage` 3 or more, not 2",
        ),
        (json!({"zero_optimization": {"offload_optimizer": cpu}}), "`zero_optimization.stage` 1 or more, not 0"),
        (
            json!({"bf16": {"enabled": true}, "fp16": {"enabled": true}}),
            "`bf16.enabled` and `fp16.enabled` are both true",
        ),
        (json!({"scheduler": {}}), "`scheduler` has no `type`"),
        (json!({"scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 1000}}}), "belongs to WarmupDecayLR"),
    ] {
        let found = problems(file);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn values_of_the_wrong_type_are_reported() {
    for (key, value, expected) in [
        ("zero_optimization.stage", json!(4), "0, 1, 2 or 3"),
        ("zero_optimization.stage", json!("3"), "0, 1, 2 or 3"),
        ("train_batch_size", json!(-1), "a whole number of at least 0"),
        ("gradient_accumulation_steps", json!(0.5), "a whole number of at least 0"),
        ("zero_optimization.offload_optimizer.device", json!("gpu"), "\"none\" or \"cpu\""),
        ("bf16.enabled", json!("true"), "true or false"),
        ("zero_optimization", json!(true), "an object"),
        ("optimizer.type", json!(1), "a string"),
        ("optimizer.params.lr", json!("5e-6"), "a number of at least 0"),
        ("optimizer.params.betas", json!([0.9]), "two numbers"),
        ("train_batch_size", json!([128]), "a whole number"),
    ] {
        let found = problems(at(key, value.clone()));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("`{key}` must be {expected}")), "{found:?}");
        assert!(found[0].ends_with(&format!("not {value}")), "{found:?}");
    }
}

#[test]
fn all_problems_are_reported_together() -> Outcome {
    let error = load(
        r#"{"gradient_clipping": 0.5, "fp16": {"enabled": true}, "steps_per_print": 1,
            "zero_optimization": {"stage": 7, "offload_param": {"device": "nvme"}},
            "optimizer": {"type": "Lamb", "params": {"lr": 1.0}}}"#,
    )?;
    for part in [
        "\n- `gradient_clipping` is 0.5, but --max_grad_norm is 1.0",
        "\n- `fp16.enabled`: true is not supported; train in bfloat16",
        "\n- `zero_optimization.stage` must be 0, 1, 2 or 3, not 7",
        "\n- `zero_optimization.offload_param.device`: \"nvme\" is not supported",
        "\n- `optimizer.type`: \"Lamb\" is not supported; write \"AdamW\"",
        "\n- `optimizer.params.lr` is 1.0, but --learning_rate is 5e-6",
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    assert_eq!(error.lines().count(), 7, "{error}");
    Ok(())
}

#[test]
fn unreadable_files_are_reported_with_their_path() -> Outcome {
    assert!(load("{\"zero_optimization\": {\n  \"stage\": }")?.contains("line 2 column"));
    assert!(load("")?.contains("line 1 column 0"));
    assert!(load(&"[".repeat(100_000))?.contains("recursion limit"));
    assert!(load("[1, 2]")?.contains("must be a JSON object, not [1,2]"));
    let twice = load("{\"bf16\": {\"enabled\": true,\n \"enabled\": false}}")?;
    assert!(twice.contains("the key `enabled` is given twice at line 2"), "{twice}");
    let missing = DeepSpeed::load(Path::new("missing/zero.json"), &run(&config()));
    assert!(missing.is_err_and(|error| error.to_string().starts_with("missing/zero.json: ")));
    Ok(())
}
