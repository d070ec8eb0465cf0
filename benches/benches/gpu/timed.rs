//! The time of a piece of work on a GPU, and its share of a ceiling.

use std::time::Instant;

use candle_core::{Device, Result};
use spag_ops::kernels;

use crate::ceilings::Ceilings;

/// Lower bound of a piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    /// Bytes read from and written to the device's memory, each counted once.
    Bytes(f64),
    /// Floating-point operations on tensor cores.
    Flops(f64),
}

impl Floor {
    /// Prints the milliseconds of a call, its rate as counted by the lower bound, and the share of the ceiling.
    pub(crate) fn print(self, what: &str, seconds: f64, ceilings: &Ceilings) {
        let (rate, unit, ceiling) = match self {
            Self::Bytes(bytes) => (bytes / seconds / 1e9, "GB/s", ceilings.copy_gb_per_s),
            Self::Flops(flops) => (flops / seconds / 1e12, "TFLOP/s", ceilings.matmul_tflops),
        };
        println!("{what:<50}{:>9.3} ms {rate:>8.1} {unit:<8}{:>5.1}%", 1e3 * seconds, 100.0 * rate / ceiling);
    }
}

const ROUNDS: usize = 5;
/// Duration of a round in seconds, to amortize host overhead.
const ROUND_SECONDS: f64 = 0.02;

/// Device seconds per call of `work`: the median of several rounds.
pub(crate) fn seconds(device: &Device, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
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
