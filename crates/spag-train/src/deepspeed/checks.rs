//! Settings of the file that contradict each other.

use super::facts::RunFacts;
use super::read::{COUNT, DEVICE, Reader, STAGE, SWITCH};
use crate::config::{Placement, ZeroStage};

/// Reports settings of the file that contradict each other.
pub(super) fn check(reader: &mut Reader<'_>, run: &RunFacts<'_>) {
    let found = [batch_sizes(reader, run), formats(reader), scheduler(reader)];
    let offloads = [
        offload(reader, "zero_optimization.offload_optimizer", ZeroStage::OptimizerState),
        offload(reader, "zero_optimization.offload_param", ZeroStage::Parameters),
    ];
    reader.problems.extend(found.into_iter().chain(offloads).flatten());
}

/// DeepSpeed's `_batch_assertion`: total = micro-batch × accumulation × processes.
fn batch_sizes(reader: &Reader<'_>, run: &RunFacts<'_>) -> Option<String> {
    let total = reader.peek("train_batch_size", COUNT)?;
    let micro = reader.peek("train_micro_batch_size_per_gpu", COUNT)?;
    let steps = reader.peek("gradient_accumulation_steps", COUNT)?;
    let world = run.world_size as u64;
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

/// By DeepSpeed's documentation, `offload_optimizer` needs stage 1 and `offload_param` stage 3.
fn offload(reader: &Reader<'_>, section: &str, least: ZeroStage) -> Option<String> {
    let device = reader.peek(&format!("{section}.device"), DEVICE)?;
    let stage = match reader.find("zero_optimization.stage") {
        Some(_) => reader.peek("zero_optimization.stage", STAGE)?,
        None => ZeroStage::Disabled,
    };
    (device == Placement::Host && stage < least).then(|| {
        let (least, stage) = (least.number(), stage.number());
        format!(
            "`{section}` with the cpu needs `zero_optimization.stage` {least} or more, not {stage}; \
             raise the stage or remove the section"
        )
    })
}
