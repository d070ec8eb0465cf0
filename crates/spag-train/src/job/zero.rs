//! What of the state is split, and where it lies: the flags and the DeepSpeed file together.

use spag_model::{LlamaConfig, OpenDevice};

use super::TrainJob;
use crate::config::{OffloadOptimizer, OffloadParam, ZeroStage};
use crate::deepspeed::{DeepSpeed, Device};
use crate::error::{Error, Result};
use crate::memory::{Asked, Ranks, place_optimizer};
use crate::zero::Zero;

/// What flags and file ask for, with the optimizer where there is room for it.
///
/// # Errors
/// Flags that contradict the file or each other, or too little memory.
pub(super) fn zero(
    job: &TrainJob,
    deepspeed: Option<&DeepSpeed>,
    model: &LlamaConfig,
    ranks: Ranks,
    device: &OpenDevice,
) -> Result<Zero> {
    let stage = stage(job, deepspeed)?;
    let parameters = match deepspeed.map(|settings| settings.zero_optimization.offload_param.device) {
        Some(Device::Cpu) => OffloadParam::Cpu,
        _ => job.offload_param,
    };
    if parameters == OffloadParam::Cpu && stage != ZeroStage::Weights {
        return Err(Error::Setting {
            name: "offload_param",
            reason: format!("it needs ZeRO stage 3, not {}: pass --zero_stage 3", u8::from(stage)),
        });
    }
    let asked = Asked { stage, parameters, optimizer: offload(job, deepspeed)? };
    let optimizer = place_optimizer(model, &job.config, asked, ranks, device)?;
    Ok(Zero { stage, optimizer, parameters })
}

/// What the flag says, or the file where there is one, or nothing.
fn stage(job: &TrainJob, deepspeed: Option<&DeepSpeed>) -> Result<ZeroStage> {
    match (job.zero_stage, deepspeed.map(|settings| settings.zero_optimization.stage)) {
        (Some(asked), Some(in_file)) if asked != in_file => Err(Error::Setting {
            name: "zero_stage",
            reason: format!(
                "it is {}, and `zero_optimization.stage` in the --deepspeed file is {}; leave the flag out",
                u8::from(asked),
                u8::from(in_file)
            ),
        }),
        (asked, in_file) => Ok(asked.or(in_file).unwrap_or_default()),
    }
}

/// Where the optimizer's state is asked to lie: what the flag says or, where that is silent, the DeepSpeed file.
fn offload(job: &TrainJob, deepspeed: Option<&DeepSpeed>) -> Result<OffloadOptimizer> {
    let in_file = deepspeed.map(|settings| settings.zero_optimization.offload_optimizer.device);
    match (job.offload_optimizer, in_file) {
        (OffloadOptimizer::Auto, Some(Device::Cpu)) => Ok(OffloadOptimizer::Cpu),
        (OffloadOptimizer::None, Some(Device::Cpu)) => Err(Error::Setting {
            name: "offload_optimizer",
            reason: "it is none, and `zero_optimization.offload_optimizer.device` in the --deepspeed file is \"cpu\"; \
                     leave one of them out"
                .into(),
        }),
        (asked, _) => Ok(asked),
    }
}
