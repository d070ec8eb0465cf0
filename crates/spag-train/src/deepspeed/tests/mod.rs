//! Files and the settings or problems that they give.

use std::{error::Error, path::Path};

use serde_json::{Value, json};

use super::*;
use crate::config::TrainConfig;

mod any;
mod curves;
mod faults;

type Outcome = Result<(), Box<dyn Error>>;

/// The flags of the paper's imitation run.
fn config() -> TrainConfig {
    TrainConfig {
        per_device_train_batch_size: 2,
        gradient_accumulation_steps: 8,
        bf16: true,
        learning_rate: 5e-6,
        warmup_steps: Some(30),
        ..TrainConfig::default()
    }
}

/// The run on 8 ranks, with LLaMA-2's 7B model.
fn run(config: &TrainConfig) -> RunFacts<'_> {
    RunFacts { config, world_size: 8, total_steps: 1000 }
}

fn problems(file: Value) -> Vec<String> {
    DeepSpeed::resolve(&file, &run(&config())).err().unwrap_or_default()
}

fn resolved(file: Value) -> DeepSpeed {
    DeepSpeed::resolve(&file, &run(&config())).unwrap_or_else(|problems| panic!("{file}: {problems:?}"))
}

/// A file with a single value at a path.
fn at(key: &str, value: Value) -> Value {
    key.rsplit('.').fold(value, |inner, name| json!({ name: inner }))
}

#[test]
fn file_of_the_paper_resolves() -> Outcome {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/default_offload_opt_param.json");
    let settings = DeepSpeed::load(&path, &run(&config()))?;
    let cpu = json!({"device": "cpu"});
    let expected = json!({
        "train_batch_size": 128,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 8,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": true},
        "fp16": {"enabled": false},
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": 5e-6, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0}
        },
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {
                "warmup_min_lr": 0.0,
                "warmup_max_lr": 5e-6,
                "warmup_num_steps": 30,
                "warmup_type": "log",
                "total_num_steps": 1000
            }
        },
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": cpu,
            "offload_param": cpu,
        }
    });
    assert_eq!(serde_json::to_value(&settings)?, expected);
    let ignored = settings.without_effect().ok_or("nothing is ignored")?;
    for key in ["stage3_prefetch_bucket_size", "overlap_comm", "offload_param.pin_memory", "steps_per_print"] {
        assert!(ignored.contains(&format!("{key}`")), "{key} is not in {ignored}");
    }
    assert_eq!(settings.sharding_plan, ShardingPlan::all()[8]);
    let scheduler = Scheduler::WarmupDecayLR(SchedulerParams {
        warmup_min_lr: 0.0,
        warmup_max_lr: 5e-6,
        warmup_num_steps: 30,
        warmup_type: WarmupType::Log,
        total_num_steps: Some(1000),
    });
    assert_eq!(settings.scheduler, Some(scheduler));
    Ok(())
}

#[test]
fn resolved_settings_resolve_to_themselves() -> Outcome {
    let scheduler = json!({"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "warmup_type": "linear"}});
    for file in [json!({}), json!({"zero_optimization": {"stage": 2}}), json!({"scheduler": scheduler})] {
        let settings = resolved(file);
        assert_eq!(resolved(serde_json::to_value(&settings)?), settings);
    }
    Ok(())
}

/// `zero_optimization` of the resolved settings.
fn zero(file: Value) -> Value {
    resolved(file).resolved["zero_optimization"].clone()
}

#[test]
fn absent_keys_take_deepspeed_defaults() {
    let none = json!({"device": "none"});
    assert_eq!(zero(json!({})), json!({"stage": 0, "offload_optimizer": none, "offload_param": none}));
}

#[test]
fn numbers_may_be_written_as_floats() {
    assert_eq!(zero(json!({"zero_optimization": {"stage": 2.0}}))["stage"], 2);
    resolved(json!({"gradient_clipping": 1, "train_batch_size": 128.0, "optimizer": {"params": {"weight_decay": 0}}}));
}

#[test]
fn disabled_and_idle_settings_are_accepted() {
    for (key, value) in [
        ("amp", json!({"enabled": false, "opt_level": "O1"})),
        ("amp", json!({"enabled": "auto"})),
        ("fp16", json!({"enabled": false, "loss_scale": 0, "loss_scale_window": 1000, "hysteresis": 2})),
        ("fp16.enabled", json!("auto")),
        ("bf16", Value::Null),
        ("sparse_attention", json!({"mode": "dense"})),
        ("pipeline", json!({"stages": "auto", "partition": "best"})),
        ("activation_checkpointing", json!({"partition_activations": false, "number_checkpoints": null})),
        ("compression_training", json!({"weight_quantization": {"shared_parameters": {"enabled": false}}})),
        ("data_efficiency", json!({"enabled": false, "data_sampling": {"enabled": true}})),
        ("communication_data_type", Value::Null),
        ("communication_data_type", json!("fp32")),
        ("communication_data_type", json!("auto")),
        ("optimizer", json!({"type": "Adam", "params": {"torch_adam": true, "adam_w_mode": true}})),
        ("zero_optimization", json!({"zero_hpz_partition_size": 1, "mics_shard_size": -1, "zeropp_loco_param": null})),
        ("zero_optimization.offload_param", json!({"device": "none", "nvme_path": "/local_nvme"})),
        ("zero_optimization.overlap_comm", json!("auto")),
        ("zero_optimization.zero_hpz_partition_size", json!(1)),
        ("steps_per_print", json!(2000)),
        ("wall_clock_breakdown", json!(true)),
        ("flops_profiler", json!({"enabled": true, "profile_step": 1})),
        ("tensorboard", json!({"enabled": true})),
        ("wandb", json!({"enabled": true})),
    ] {
        assert_eq!(problems(at(key, value)), Vec::<String>::new(), "{key}");
    }
}

/// Names of fields and keys of DeepSpeed's `zero/config.py`, `zero/offload_config.py` and `runtime/constants.py`, and keys of others.
#[test]
fn keys_without_an_effect_are_named_in_a_note() {
    let zero = "allgather_partitions allgather_bucket_size overlap_comm reduce_scatter reduce_bucket_size contiguous_gradients sub_group_size \
        prefetch_bucket_size param_persistence_threshold model_persistence_threshold max_live_parameters max_reuse_distance \
        gather_16bit_weights_on_model_save module_granularity_threshold use_all_reduce_for_fetch_params stage3_prefetch_bucket_size \
        stage3_param_persistence_threshold stage3_max_live_parameters stage3_max_reuse_distance ignore_unused_parameters \
        stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save legacy_stage1 round_robin_gradients \
        load_from_fp32_weights log_trace_cache_warnings memory_efficient_linear pipeline_loading_checkpoint leaf_module";
    let offload = "pin_memory nvme_path buffer_count buffer_size max_in_cpu pipeline_read pipeline_write fast_init";
    for (section, names) in [
        ("", "comms_logger comms_config monitor_config tensorboard flops_profiler steps_per_print wandb x y.z"),
        ("zero_optimization.", zero),
        ("zero_optimization.offload_optimizer.", offload),
        ("zero_optimization.offload_param.", offload),
        ("optimizer.params.", "torch_adam fused foreach capturable"),
        ("bf16.", "immediate_grad_update check_grad_overflow"),
        ("activation_checkpointing.", "number_checkpoints profile"),
    ] {
        for name in names.split_whitespace() {
            let file = match section.strip_suffix('.') {
                Some(section) => at(section, json!({ name: "anything" })),
                None => json!({ name: {"enabled": true} }),
            };
            assert_eq!(resolved(file).without_effect(), Some(format!("`{section}{name}`")));
        }
    }
    assert_eq!(resolved(json!({"bf16": {"enabled": "auto"}, "fp16": null})).without_effect(), None);
}

#[test]
fn auto_scheduler_takes_the_flags() {
    let params = json!({"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"});
    let expected = SchedulerParams {
        warmup_min_lr: 0.0,
        warmup_max_lr: 5e-6,
        warmup_num_steps: 30,
        warmup_type: WarmupType::Log,
        total_num_steps: None,
    };
    let file = |name: &str| resolved(json!({"scheduler": {"type": name, "params": params}})).scheduler;
    assert_eq!(file("WarmupLR"), Some(Scheduler::WarmupLR(expected.clone())));
    let decay = SchedulerParams { total_num_steps: Some(1000), ..expected };
    assert_eq!(file("WarmupDecayLR"), Some(Scheduler::WarmupDecayLR(decay)));
}

#[test]
fn schedules_follow_deepspeed() {
    let file = |name: &str, shape: &str| {
        let params = json!({"warmup_min_lr": 1e-6, "warmup_num_steps": "auto", "warmup_type": shape});
        resolved(json!({"scheduler": {"type": name, "params": params}})).scheduler.expect("a scheduler is given")
    };
    let near = |rate: f64, expected: f64| assert!((rate - expected).abs() < 1e-18, "{rate} is not {expected}");
    let log = file("WarmupLR", "log");
    // The minimum at first, and again at DeepSpeed's iteration 0, of which the logarithm is 0.
    near(log.rate(0), 1e-6);
    near(log.rate(1), 1e-6);
    near(log.rate(30), 5e-6);
    near(log.rate(10), 1e-6 + 4e-6 * 10_f64.ln() / 30_f64.ln());
    near(log.rate(u64::MAX), 5e-6);
    let linear = file("WarmupDecayLR", "linear");
    near(linear.rate(16), 1e-6 + 4e-6 * 0.5);
    near(linear.rate(31), 5e-6);
    near(linear.rate(516), 1e-6 + 4e-6 * 0.5);
    near(linear.rate(1001), 1e-6);
    near(linear.rate(5000), 1e-6);
}
