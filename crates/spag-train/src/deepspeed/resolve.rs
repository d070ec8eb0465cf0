//! The settings with `"auto"` filled in, as transformers' `HfTrainerDeepSpeedConfig` does.

use super::{
    AdamWParams, DeepSpeed, Device, Flags, Offload, Optimizer, Scheduler, SchedulerParams, Switch, WarmupType, Zero,
    ZeroStage,
    reader::{BETAS, COUNT, DEVICE, Given, NAME, NUMBER, Reader, STAGE, SWITCH, WARMUP},
};

/// Reads all settings; what is wrong with them is left with the reader.
pub(super) fn resolve(reader: &mut Reader<'_>, flags: &Flags) -> DeepSpeed {
    DeepSpeed {
        train_batch_size: reader.agree(
            "train_batch_size",
            COUNT,
            "--per_device_train_batch_size × --gradient_accumulation_steps × processes",
            flags.train_batch_size(),
        ),
        train_micro_batch_size_per_gpu: reader.agree(
            "train_micro_batch_size_per_gpu",
            COUNT,
            "--per_device_train_batch_size",
            flags.per_device_train_batch_size as u64,
        ),
        gradient_accumulation_steps: reader.agree(
            "gradient_accumulation_steps",
            COUNT,
            "--gradient_accumulation_steps",
            flags.gradient_accumulation_steps as u64,
        ),
        gradient_clipping: reader.agree("gradient_clipping", NUMBER, "--max_grad_norm", flags.max_grad_norm),
        bf16: Switch { enabled: bf16(reader, flags) },
        fp16: Switch { enabled: reader.agree("fp16.enabled", SWITCH, "--fp16", flags.fp16) },
        optimizer: Optimizer::AdamW(adam_w(reader, flags)),
        scheduler: scheduler(reader, flags),
        zero_optimization: zero(reader, flags),
    }
}

/// `bfloat16` is the section's old name, which DeepSpeed reads where the new one is missing.
fn bf16(reader: &mut Reader<'_>, flags: &Flags) -> bool {
    let key = match reader.find("bf16") {
        Some(_) => "bf16.enabled",
        None => "bfloat16.enabled",
    };
    reader.agree(key, SWITCH, "--bf16", flags.bf16)
}

fn adam_w(reader: &mut Reader<'_>, flags: &Flags) -> AdamWParams {
    // Its values are refused by the table of keys; only its kind is left to check.
    reader.given("optimizer.type", NAME);
    AdamWParams {
        lr: reader.agree("optimizer.params.lr", NUMBER, "--learning_rate", flags.learning_rate),
        betas: reader.agree(
            "optimizer.params.betas",
            BETAS,
            "--adam_beta1, --adam_beta2",
            [flags.adam_beta1, flags.adam_beta2],
        ),
        eps: reader.agree("optimizer.params.eps", NUMBER, "--adam_epsilon", flags.adam_epsilon),
        weight_decay: reader.agree("optimizer.params.weight_decay", NUMBER, "--weight_decay", flags.weight_decay),
    }
}

fn scheduler(reader: &mut Reader<'_>, flags: &Flags) -> Option<Scheduler> {
    let Given::Value(name) = reader.given("scheduler.type", NAME) else { return None };
    let decays = match name.as_str() {
        "WarmupLR" => false,
        "WarmupDecayLR" => true,
        // Refused by the table of keys.
        _ => return None,
    };
    let params = SchedulerParams {
        warmup_min_lr: reader.or("scheduler.params.warmup_min_lr", NUMBER, 0.0),
        warmup_max_lr: reader.agree("scheduler.params.warmup_max_lr", NUMBER, "--learning_rate", flags.learning_rate),
        warmup_num_steps: reader.agree(
            "scheduler.params.warmup_num_steps",
            COUNT,
            "--warmup_steps (or what --warmup_ratio comes to)",
            flags.warmup_steps as u64,
        ),
        warmup_type: reader.or("scheduler.params.warmup_type", WARMUP, WarmupType::Log),
        total_num_steps: decays.then(|| {
            let steps = flags.total_steps as u64;
            reader.agree("scheduler.params.total_num_steps", COUNT, "the run's number of steps", steps)
        }),
    };
    Some(if decays { Scheduler::WarmupDecayLR(params) } else { Scheduler::WarmupLR(params) })
}

/// Defaults: `deepspeed/runtime/zero/config.py`; what `"auto"` is for the hidden size: `trainer_config_finalize`.
fn zero(reader: &mut Reader<'_>, flags: &Flags) -> Zero {
    /// Python's `sys.maxsize`: no limit.
    const UNLIMITED: u64 = i64::MAX as u64;

    let hidden = flags.hidden_size as u64;
    let stage = reader.or("zero_optimization.stage", STAGE, ZeroStage::Disabled);
    // transformers fills these two in for stage 3 alone.
    let stage3 = |value: u64, default: u64| if stage == ZeroStage::Weights { value } else { default };
    // In floats, as in Python: 0.9 · 4096² is 15,099,494.4, and DeepSpeed drops the fraction.
    let prefetch = (0.9 * hidden as f64 * hidden as f64) as u64;
    let old_gather = reader.or("zero_optimization.stage3_gather_fp16_weights_on_model_save", SWITCH, false);
    Zero {
        stage,
        offload_optimizer: Offload {
            device: reader.or("zero_optimization.offload_optimizer.device", DEVICE, Device::None),
            pin_memory: reader.or("zero_optimization.offload_optimizer.pin_memory", SWITCH, false),
        },
        offload_param: Offload {
            device: reader.or("zero_optimization.offload_param.device", DEVICE, Device::None),
            pin_memory: reader.or("zero_optimization.offload_param.pin_memory", SWITCH, false),
        },
        overlap_comm: reader.or("zero_optimization.overlap_comm", SWITCH, stage == ZeroStage::Weights),
        contiguous_gradients: reader.or("zero_optimization.contiguous_gradients", SWITCH, true),
        allgather_bucket_size: reader.or("zero_optimization.allgather_bucket_size", COUNT, 500_000_000),
        reduce_bucket_size: size(
            reader,
            "zero_optimization.reduce_bucket_size",
            hidden.saturating_mul(hidden),
            500_000_000,
        ),
        sub_group_size: reader.or("zero_optimization.sub_group_size", COUNT, 1_000_000_000),
        stage3_prefetch_bucket_size: size(
            reader,
            "zero_optimization.stage3_prefetch_bucket_size",
            stage3(prefetch, 50_000_000),
            50_000_000,
        ),
        stage3_param_persistence_threshold: size(
            reader,
            "zero_optimization.stage3_param_persistence_threshold",
            stage3(hidden.saturating_mul(10), 100_000),
            100_000,
        ),
        stage3_model_persistence_threshold: reader.or(
            "zero_optimization.stage3_model_persistence_threshold",
            COUNT,
            UNLIMITED,
        ),
        stage3_max_live_parameters: reader.or("zero_optimization.stage3_max_live_parameters", COUNT, 1_000_000_000),
        stage3_max_reuse_distance: reader.or("zero_optimization.stage3_max_reuse_distance", COUNT, 1_000_000_000),
        stage3_gather_16bit_weights_on_model_save: reader.or(
            "zero_optimization.stage3_gather_16bit_weights_on_model_save",
            SWITCH,
            old_gather,
        ),
    }
}

/// A size whose `"auto"` differs from its default.
fn size(reader: &mut Reader<'_>, key: &'static str, auto: u64, default: u64) -> u64 {
    match reader.given(key, COUNT) {
        Given::Value(value) => value,
        Given::Auto => auto,
        Given::Absent => default,
    }
}
