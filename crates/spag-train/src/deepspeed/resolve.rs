//! The settings with `"auto"` filled in, as transformers' `HfTrainerDeepSpeedConfig` does.

use spag_model::dtype::WeightDtype;

use super::facts::RunFacts;
use super::read::{BETAS, COUNT, DEVICE, Given, NAME, NUMBER, RATE, REDUCED, Reader, STAGE, SWITCH, WARMUP};
use super::{Scheduler, SchedulerParams, WarmupType};
use crate::config::{Placement, ShardingPlan, ZeroStage};

/// Resolves all settings; their problems are left with the reader.
pub(super) fn resolve(reader: &mut Reader<'_>, run: &RunFacts<'_>) -> (ShardingPlan, Option<Scheduler>) {
    let config = run.config;
    let (micro, steps) = (config.per_device_train_batch_size as u64, config.gradient_accumulation_steps as u64);
    let total_flag = "--per_device_train_batch_size × --gradient_accumulation_steps × processes";
    reader.agree("train_batch_size", COUNT, total_flag, run.train_batch_size());
    reader.agree("train_micro_batch_size_per_gpu", COUNT, "--per_device_train_batch_size", micro);
    reader.agree("gradient_accumulation_steps", COUNT, "--gradient_accumulation_steps", steps);
    reader.agree("gradient_clipping", NUMBER, "--max_grad_norm", config.max_grad_norm);
    // `bfloat16` is the old name, which DeepSpeed reads if the new one is absent.
    let is_old = reader.find("bf16").is_none() && reader.find("bfloat16").is_some();
    let bf16 = if is_old { "bfloat16.enabled" } else { "bf16.enabled" };
    reader.agree(bf16, SWITCH, "--bf16", config.bf16);
    // Without it DeepSpeed reduces in the format of training, and this program in the flag's.
    if reader.find("communication_data_type").is_some() {
        let reduced = match config.reduce_dtype {
            WeightDtype::F32 => "fp32",
            WeightDtype::Bf16 => "bf16",
        };
        reader.agree("communication_data_type", REDUCED, "--reduce_dtype", reduced);
    }
    // Only the type is left to check: true is refused by the schema.
    reader.given("fp16.enabled", SWITCH);
    reader.set("fp16.enabled", false);
    // Other optimizers are refused by the schema.
    reader.given("optimizer.type", NAME);
    reader.set("optimizer.type", "AdamW");
    reader.agree("optimizer.params.lr", NUMBER, "--learning_rate", config.learning_rate);
    let betas = [config.adam_beta1, config.adam_beta2];
    reader.agree("optimizer.params.betas", BETAS, "--adam_beta1, --adam_beta2", betas);
    reader.agree("optimizer.params.eps", NUMBER, "--adam_epsilon", config.adam_epsilon);
    reader.agree("optimizer.params.weight_decay", NUMBER, "--weight_decay", config.weight_decay);
    let scheduler = scheduler(reader, run);
    (zero(reader), scheduler)
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
    let steps_flag = "--warmup_steps (or the steps of --warmup_ratio)";
    let params = SchedulerParams {
        warmup_min_lr: reader.or("scheduler.params.warmup_min_lr", RATE, 0.0),
        warmup_max_lr: reader.agree("scheduler.params.warmup_max_lr", NUMBER, "--learning_rate", rate),
        warmup_num_steps: reader.agree("scheduler.params.warmup_num_steps", COUNT, steps_flag, run.warmup_steps()),
        warmup_type: reader.or("scheduler.params.warmup_type", WARMUP, WarmupType::Log),
        total_num_steps: decays
            .then(|| reader.agree("scheduler.params.total_num_steps", COUNT, "the run's number of steps", steps)),
    };
    let scheduler = if decays { Scheduler::WarmupDecayLR(params) } else { Scheduler::WarmupLR(params) };
    reader.set("scheduler", &scheduler);
    Some(scheduler)
}

/// The settings of `zero_optimization`, documented at <https://deepspeed.readthedocs.io/en/latest/zero3.html>, that have an effect here.
/// Buckets and thresholds are those of DeepSpeed's implementation.
fn zero(reader: &mut Reader<'_>) -> ShardingPlan {
    let stage = reader.or("zero_optimization.stage", STAGE, ZeroStage::Disabled);
    let mut offload =
        |section: &str| reader.or(&format!("zero_optimization.{section}.device"), DEVICE, Placement::Device);
    let (optimizer, parameters) = (offload("offload_optimizer"), offload("offload_param"));
    ShardingPlan { stage, optimizer, parameters, ..ShardingPlan::default() }
}
