//! Measures ops and prints them with their share of a peak.

use std::time::{Duration, Instant};

use candle_core::Result;

use super::peak::Peaks;

/// What an op must compute and move at least.
#[derive(Clone, Copy, Default)]
pub(crate) struct Work {
    flops: f64,
    bytes: f64,
    is_bf16: bool,
}

/// Floating-point operations, in f32.
pub(crate) fn flops(count: usize) -> Work {
    Work { flops: count as f64, ..Work::default() }
}

/// Bytes that are read or written.
pub(crate) fn bytes(count: usize) -> Work {
    Work { bytes: count as f64, ..Work::default() }
}

/// Bytes of `count` f32 numbers.
pub(crate) fn floats(count: usize) -> Work {
    bytes(4 * count)
}

impl Work {
    /// And bytes.
    pub(crate) fn and_bytes(self, count: usize) -> Self {
        Self { bytes: count as f64, ..self }
    }

    /// With products in bf16.
    pub(crate) fn in_bf16(self, is_bf16: bool) -> Self {
        Self { is_bf16, ..self }
    }
}

/// How long an op is measured.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
}

/// The printed table.
pub(crate) struct Table {
    pub(crate) peaks: Peaks,
    pub(crate) budget: Budget,
    /// A part of the names of ops that are measured.
    pub(crate) filter: Option<String>,
}

impl Table {
    /// Whether any op of a group may be measured, so that its operands are needed.
    pub(crate) fn wants(&self, group: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| group.contains(filter) || !GROUPS.iter().any(|name| name.contains(filter)))
    }

    /// Measures `f` on a rayon thread, where the model runs its ops.
    pub(crate) fn op<R>(&self, name: String, work: Work, f: impl Fn() -> Result<R> + Sync) {
        self.op_on(name, work, || (), |()| f());
    }

    /// As [`Table::op`], with a new operand for every round, which is not timed.
    pub(crate) fn op_on<S, R>(
        &self,
        name: String,
        work: Work,
        operand: impl Fn() -> S + Sync,
        f: impl Fn(S) -> Result<R> + Sync,
    ) {
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter)) {
            return;
        }
        let mut times = Vec::new();
        rayon::scope(|_| {
            let began = Instant::now();
            while times.is_empty() || times.len() < self.budget.rounds && began.elapsed() < self.budget.time {
                let operand = operand();
                let start = Instant::now();
                std::hint::black_box(f(operand).expect("the shapes fit"));
                times.push(start.elapsed().as_secs_f64());
            }
        });
        // The first round finds cold caches and new memory.
        let mut warm = if times.len() > 1 { times.split_off(1) } else { times };
        warm.sort_by(f64::total_cmp);
        self.print(&name, work, warm[warm.len() / 2]);
    }

    fn print(&self, name: &str, work: Work, seconds: f64) {
        let peak = if work.is_bf16 { self.peaks.bf16_flops } else { self.peaks.f32_flops };
        // The bound that takes longer.
        let (computing, moving) = (work.flops / peak, work.bytes / self.peaks.bytes);
        let (rate, unit, share) = match computing >= moving {
            true => (work.flops / seconds, "GFLOP/s", computing / seconds),
            false => (work.bytes / seconds, "GB/s", moving / seconds),
        };
        println!("{name:<64}{:>12.3} ms{:>10.1} {unit:<8}{:>5.0}%", seconds * 1e3, rate / 1e9, share * 100.0);
    }
}

/// The groups of ops: names begin with them.
pub(crate) const GROUPS: [&str; 7] =
    ["linear", "packed", "attention", "paged attention", "log_prob", "elementwise", "memory"];
