//! One measurement.

use std::time::Instant;

use candle_core::{Device, Result};
use serde::Serialize;
use serde_json::json;
use spag_model::kernels;

use super::Ceilings;
use crate::report::Row;

/// What a piece of work cannot do without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// Bytes that go to and from the device's memory, each once.
    Bytes(f64),
    /// Floating-point operations on tensor cores.
    Flops(f64),
}

/// How long a piece of work took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// What was done, with its shapes.
    pub what: String,
    /// Time of one, in milliseconds: the median of several rounds.
    pub milliseconds: f64,
    /// Bytes per second ÷ 10⁹, or operations per second ÷ 10¹², counted by the floor.
    pub rate: f64,
    /// `GB/s` or `TFLOP/s`.
    pub unit: &'static str,
    /// The measured ceiling's time as a share of this one's.
    pub share_of_ceiling: f64,
}

const ROUNDS: usize = 5;
/// Seconds that a round should last, so that the host's part vanishes.
const ROUND_SECONDS: f64 = 0.02;

/// Seconds that one call of `work` keeps the device busy.
///
/// # Errors
/// What `work` reports, or a failure of the device.
pub(super) fn seconds(device: &Device, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let Some(kernels) = kernels::of(device)? else { candle_core::bail!("nothing runs kernels on {device:?}") };
    let mut round = |count: usize| -> Result<f64> {
        kernels.synchronize()?;
        let began = Instant::now();
        for _ in 0..count {
            work()?;
        }
        kernels.synchronize()?;
        Ok(began.elapsed().as_secs_f64() / count as f64)
    };
    // The first call loads code.
    round(1)?;
    let count = (ROUND_SECONDS / round(2)?.max(1e-6)).ceil().clamp(1.0, 1000.0) as usize;
    let mut times = (0..ROUNDS).map(|_| round(count)).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

impl Timed {
    /// Times `work` against `floor`.
    ///
    /// # Errors
    /// What `work` reports, or a failure of the device.
    pub(super) fn of(
        what: impl Into<String>,
        floor: Floor,
        ceilings: &Ceilings,
        device: &Device,
        work: impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        Ok(Self::new(what, floor, ceilings, seconds(device, work)?))
    }

    /// A measurement of `seconds`.
    pub fn new(what: impl Into<String>, floor: Floor, ceilings: &Ceilings, seconds: f64) -> Self {
        let (rate, unit, ceiling) = match floor {
            Floor::Bytes(bytes) => (bytes / seconds / 1e9, "GB/s", ceilings.copy_gb_per_s),
            Floor::Flops(flops) => (flops / seconds / 1e12, "TFLOP/s", ceilings.matmul_tflops),
        };
        Self { what: what.into(), milliseconds: seconds * 1e3, rate, unit, share_of_ceiling: rate / ceiling }
    }

    /// The measurement as a row of the report.
    pub fn row(&self) -> Row {
        Row {
            part: "ops".into(),
            what: self.what.clone(),
            result: format!(
                "{:>9.3} ms {:>8.1} {:<8} {:>5.1}% of the ceiling",
                self.milliseconds,
                self.rate,
                self.unit,
                100.0 * self.share_of_ceiling
            ),
            numbers: json!(self),
            passed: None,
        }
    }
}
