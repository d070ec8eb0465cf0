//! The settings with `"auto"` filled in, as transformers' `HfTrainerDeepSpeedConfig` does.

use super::{
    AdamWParams, DeepSpeed, Offload, Optimizer, RunFacts, Scheduler, SchedulerParams, Switch, WarmupType, Zero,
    read::{BETAS, COUNT, DEVICE, Given, NAME, NUMBER, RATE, Reader, STAGE, SWITCH, WARMUP},
};
use crate::config::{Placement, ZeroStage};

/// Reads all settings; their problems are left with the reader.
pub(super) fn resolve(reader: &mut Reader<'_>, run: &RunFacts<'_>) -> DeepSpeed {
    let (config, micro, steps) = (run.config, "train_micro_batch_size_per_gpu", "gradient_accumulation_steps");
    let total_flag = "--per_device_train_batch_size × --gradient_accumulation_steps × processes";
    // `bfloat16` is the old name, which DeepSpeed reads if the new one is absent.
    let bf16 = if reader.find("bf16").is_some() { "bf16.enabled" } else { "bfloat16.enabled" };
    // Only the type is left to check: true is refused by the schema.
    reader.given("fp16.enabled", SWITCH);
    let micro_batch = config.per_device_train_batch_size as u64;
    DeepSpeed {
        train_batch_size: reader.agree("train_batch_size", COUNT, total_flag, run.train_batch_size()),
        train_micro_batch_size_per_gpu: reader.agree(micro, COUNT, "--per_device_train_batch_size", micro_batch),
        gradient_accumulation_steps: reader.agree(
            steps,
            COUNT,
            "--gradient_accumulation_steps",
            config.gradient_accumulation_steps as u64,
        ),
        gradient_clipping: reader.agree("gradient_clipping", NUMBER, "--max_grad_norm", config.max_grad_norm),
        bf16: Switch { enabled: reader.agree(bf16, SWITCH, "--bf16", config.bf16) },
        fp16: Switch { enabled: false },
        optimizer: Optimizer::AdamW(adam_w(reader, run)),
        scheduler: scheduler(reader, run),
        zero_optimization: zero(reader, run.hidden_size as u64),
    }
}

fn adam_w(reader: &mut Reader<'_>, run: &RunFacts<'_>) -> AdamWParams {
    // Other optimizers are refused by the schema.
    reader.given("optimizer.type", NAME);
    let config = run.config;
    let betas = [config.adam_beta1, config.adam_beta2];
    AdamWParams {
        lr: reader.agree("optimizer.params.lr", NUMBER, "--learning_rate", config.learning_rate),
        betas: reader.agree("optimizer.params.betas", BETAS, "--adam_beta1, --adam_beta2", betas),
        eps: reader.agree("optimizer.params.eps", NUMBER, "--adam_epsilon", config.adam_epsilon),
        weight_decay: reader.agree("optimizer.params.weight_decay", NUMBER, "--weight_decay", config.weight_decay),
    }
}

fn scheduler(reader: &mut Reader<'_>, run: &RunFacts<'_>) -> Option<Scheduler> {
    let Given::Value(name) = reader.given("scheduler.type", NAME) else { return None };
    let decays = match name.as_str() {
        "WarmupLR" => false,
        "WarmupDecayLR" => true,
        // Refused by the schema.
        _ => return None,
    };
    let (rate, steps) = (run.config.learning_rate, run.total_steps as u64);
    let params = SchedulerParams {
        warmup_min_lr: reader.or("scheduler.params.warmup_min_lr", RATE, 0.0),
        warmup_max_lr: reader.agree("scheduler.params.warmup_max_lr", NUMBER, "--learning_rate", rate),
        warmup_num_steps: reader.agree(
            "scheduler.params.warmup_num_steps",
            COUNT,
            "--warmup_steps (or the steps of --warmup_ratio)",
            run.warmup_steps(),
        ),
        warmup_type: reader.or("scheduler.params.warmup_type", WARMUP, WarmupType::Log),
        total_num_steps: decays
            .then(|| reader.agree("scheduler.params.total_num_steps", COUNT, "the run's number of steps", steps)),
    };
    Some(if decays { Scheduler::WarmupDecayLR(params) } else { Scheduler::WarmupLR(params) })
}

/// Defaults: `deepspeed/runtime/zero/config.py`; `"auto"` by hidden size: `trainer_config_finalize` of transformers.
fn zero(reader: &mut Reader<'_>, hidden: u64) -> Zero {
    /// Python's `sys.maxsize`.
    const UNLIMITED: u64 = i64::MAX as u64;

    let key = |name: &str| format!("zero_optimization.{name}");
    let stage = reader.or(&key("stage"), STAGE, ZeroStage::Disabled);
    // transformers fills these in for stage 3 only.
    let stage3 = |value: u64, default: u64| if stage == ZeroStage::Parameters { value } else { default };
    let reduce = hidden.saturating_mul(hidden);
    // In floats, as in Python: 0.9 · 4096² is 15,099,494.4, and DeepSpeed drops the fraction.
    let prefetch = stage3((0.9 * hidden as f64 * hidden as f64) as u64, 50_000_000);
    let persistence = stage3(hidden.saturating_mul(10), 100_000);
    let old_gather = reader.or(&key("stage3_gather_fp16_weights_on_model_save"), SWITCH, false);
    let mut offload = |section: &str| Offload {
        device: reader.or(&key(&format!("{section}.device")), DEVICE, Placement::Device),
        pin_memory: reader.or(&key(&format!("{section}.pin_memory")), SWITCH, false),
    };
    let (offload_optimizer, offload_param) = (offload("offload_optimizer"), offload("offload_param"));
    let mut count = |name: &str, auto: u64, default: u64| reader.or_auto(&key(name), COUNT, auto, default);
    Zero {
        stage,
        offload_optimizer,
        offload_param,
        allgather_bucket_size: count("allgather_bucket_size", 500_000_000, 500_000_000),
        reduce_bucket_size: count("reduce_bucket_size", reduce, 500_000_000),
        sub_group_size: count("sub_group_size", 1_000_000_000, 1_000_000_000),
        stage3_prefetch_bucket_size: count("stage3_prefetch_bucket_size", prefetch, 50_000_000),
        stage3_param_persistence_threshold: count("stage3_param_persistence_threshold", persistence, 100_000),
        stage3_model_persistence_threshold: count("stage3_model_persistence_threshold", UNLIMITED, UNLIMITED),
        stage3_max_live_parameters: count("stage3_max_live_parameters", 1_000_000_000, 1_000_000_000),
        stage3_max_reuse_distance: count("stage3_max_reuse_distance", 1_000_000_000, 1_000_000_000),
        overlap_comm: reader.or(&key("overlap_comm"), SWITCH, stage == ZeroStage::Parameters),
        contiguous_gradients: reader.or(&key("contiguous_gradients"), SWITCH, true),
        stage3_gather_16bit_weights_on_model_save: reader.or(
            &key("stage3_gather_16bit_weights_on_model_save"),
            SWITCH,
            old_gather,
        ),
    }
}
