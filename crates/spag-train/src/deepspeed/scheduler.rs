//! The schedules of DeepSpeed that transformers supports: `WarmupLR` and `WarmupDecayLR`.

use serde::Serialize;

/// A schedule of DeepSpeed (`deepspeed/runtime/lr_schedules.py`).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", content = "params")]
pub(crate) enum Scheduler {
    /// Warm-up, then the peak.
    WarmupLR(SchedulerParams),
    /// Warm-up, then straight down to 0 at the last step.
    WarmupDecayLR(SchedulerParams),
}

/// The numbers of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SchedulerParams {
    /// Rate before the warm-up.
    pub(crate) warmup_min_lr: f64,
    /// Rate after the warm-up.
    pub(crate) warmup_max_lr: f64,
    /// Optimizer steps of warm-up.
    pub(crate) warmup_num_steps: u64,
    /// How the rate rises.
    pub(crate) warmup_type: WarmupType,
    /// Optimizer steps of the run; for `WarmupDecayLR` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_num_steps: Option<u64>,
}

/// How the rate rises in the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WarmupType {
    /// With the logarithm of the step: DeepSpeed's default.
    Log,
    /// Linearly.
    Linear,
}

impl Scheduler {
    /// The name in DeepSpeed files.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::WarmupLR(_) => "WarmupLR",
            Self::WarmupDecayLR(_) => "WarmupDecayLR",
        }
    }

    /// The rate of optimizer step `step` (0 for the first).
    ///
    /// DeepSpeed advances its schedule after each step and starts at the minimum, so the first two steps both have the
    /// minimum rate. (Up to 0.15.2 the first step has the optimizer's rate: see
    /// [`FirstStepRate`](crate::FirstStepRate).) A warm-up of fewer than 2 steps counts as 2.
    pub(crate) fn rate(&self, step: u64) -> f64 {
        let (Self::WarmupLR(params) | Self::WarmupDecayLR(params)) = self;
        let rise = params.warmup_max_lr - params.warmup_min_lr;
        params.warmup_min_lr + rise * step.checked_sub(1).map_or(0.0, |iteration| self.share(iteration as f64))
    }

    /// The fraction of the rise at DeepSpeed's `last_batch_iteration`.
    fn share(&self, iteration: f64) -> f64 {
        let (Self::WarmupLR(params) | Self::WarmupDecayLR(params)) = self;
        let warmup = params.warmup_num_steps.max(2) as f64;
        match (params.warmup_type, self) {
            (WarmupType::Log, _) if iteration < warmup => (1.0 / warmup.ln()) * (iteration + 1.0).ln(),
            (WarmupType::Linear, _) if iteration < warmup => iteration / warmup,
            (_, Self::WarmupLR(_)) => 1.0,
            (_, Self::WarmupDecayLR(_)) => {
                let total = params.total_num_steps.unwrap_or_default() as f64;
                ((total - iteration) / (total - warmup).max(1.0)).max(0.0)
            }
        }
    }
}
