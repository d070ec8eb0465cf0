//! A measurement.

use std::time::Instant;

use candle_core::{Device, Result};
use serde::Serialize;
use serde_json::json;
use spag_ops::kernels;

use super::Ceilings;
use crate::report::Row;

/// Lower bound of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// Bytes read from and written to the device's memory, each counted once.
    Bytes(f64),
    /// Floating-point operations on tensor cores.
    Flops(f64),
}

/// The time of a piece of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timed {
    /// The work and its shapes.
    pub what: String,
    /// Time per call in milliseconds: the median of several rounds.
    pub milliseconds: f64,
    /// Bytes per second ÷ 10⁹, or operations per second ÷ 10¹², as counted by the lower bound.
    pub rate: f64,
    /// `GB/s` or `TFLOP/s`.
    pub unit: &'static str,
    /// The rate as a share of the measured ceiling.
    pub share_of_ceiling: f64,
}

const ROUNDS: usize = 5;
/// Duration of a round in seconds, to amortize host overhead.
const ROUND_SECONDS: f64 = 0.02;

/// Device seconds per call of `work`.
pub(super) fn seconds(device: &Device, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let Some(kernels) = kernels::of(device)? else { candle_core::bail!("there are no kernels for {device:?}") };
    let mut round = |count: usize| -> Result<f64> {
        kernels.synchronize()?;
        let began = Instant::now();
        for _ in 0..count {
            work()?;
        }
        kernels.synchronize()?;
        Ok(began.elapsed().as_secs_f64() / count as f64)
    };
    // The first call loads the kernels.
    round(1)?;
    let count = (ROUND_SECONDS / round(2)?.max(1e-6)).ceil().clamp(1.0, 1000.0) as usize;
    let mut times = (0..ROUNDS).map(|_| round(count)).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

impl Timed {
    /// Times `work`.
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
