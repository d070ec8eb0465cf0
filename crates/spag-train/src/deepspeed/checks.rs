//! Settings that do not go together.

use super::{
    Device, Flags, Problem, ZeroStage,
    reader::{COUNT, DEVICE, Reader, STAGE, SWITCH},
};

/// Notes what contradicts itself within the file.
pub(super) fn check(reader: &mut Reader<'_>, flags: &Flags) {
    let found = [batch_sizes(reader, flags), formats(reader), scheduler(reader)];
    let offloads = [
        offload(reader, "zero_optimization.offload_optimizer", ZeroStage::OptimizerState),
        offload(reader, "zero_optimization.offload_param", ZeroStage::Weights),
    ];
    for reason in found.into_iter().chain(offloads).flatten() {
        reader.report(Problem::Inconsistent(reason));
    }
    half_precision(reader, flags);
}

/// DeepSpeed's `_batch_assertion`: total = micro-batch × accumulation × processes.
fn batch_sizes(reader: &Reader<'_>, flags: &Flags) -> Option<String> {
    let total = reader.peek("train_batch_size", COUNT)?;
    let micro = reader.peek("train_micro_batch_size_per_gpu", COUNT)?;
    let steps = reader.peek("gradient_accumulation_steps", COUNT)?;
    let world = flags.world_size as u64;
    let product = micro.saturating_mul(steps).saturating_mul(world);
    (total != product).then(|| {
        format!(
            "`train_batch_size` is {total}, but train_micro_batch_size_per_gpu × gradient_accumulation_steps × processes \
             is {micro} × {steps} × {world} = {product}; write \"auto\" for one of them"
        )
    })
}

fn formats(reader: &Reader<'_>) -> Option<String> {
    let bf16 = ["bf16.enabled", "bfloat16.enabled"].into_iter().find(|key| reader.peek(key, SWITCH) == Some(true))?;
    reader.peek("fp16.enabled", SWITCH)?.then(|| format!("`{bf16}` and `fp16.enabled` are both true; turn fp16 off"))
}

fn scheduler(reader: &Reader<'_>) -> Option<String> {
    reader.find("scheduler")?.as_object()?;
    match reader.find("scheduler.type") {
        None => Some("`scheduler` has no `type`; name WarmupLR or WarmupDecayLR, or remove the section".to_owned()),
        Some(name) if name == "WarmupLR" && reader.find("scheduler.params.total_num_steps").is_some() => {
            Some("`scheduler.params.total_num_steps` belongs to WarmupDecayLR, not to WarmupLR; remove it".to_owned())
        }
        Some(_) => None,
    }
}

/// DeepSpeed's documentation: `offload_optimizer` works with stages 1 to 3, `offload_param` with stage 3 alone.
fn offload(reader: &Reader<'_>, section: &str, least: ZeroStage) -> Option<String> {
    let device = reader.peek(&format!("{section}.device"), DEVICE)?;
    let stage = match reader.find("zero_optimization.stage") {
        Some(_) => reader.peek("zero_optimization.stage", STAGE)?,
        None => ZeroStage::Disabled,
    };
    (device == Device::Cpu && stage < least).then(|| {
        let (least, stage) = (u8::from(least), u8::from(stage));
        format!(
            "`{section}` asks for the cpu, which needs `zero_optimization.stage` {least} or more, not {stage}; \
             raise the stage or remove the section"
        )
    })
}

/// float16 is refused where the file asks for it, and where it leaves the choice to a flag that does.
fn half_precision(reader: &mut Reader<'_>, flags: &Flags) {
    const KEY: &str = "fp16.enabled";
    let left_to_flag = reader.find(KEY).is_none_or(|value| value == "auto");
    if reader.peek(KEY, SWITCH) == Some(true) || (left_to_flag && flags.fp16) {
        reader.report(Problem::Unsupported {
            key: KEY.to_owned(),
            value: "true".to_owned(),
            advice: "train in bfloat16 (`bf16.enabled`) or float32",
        });
    }
}
