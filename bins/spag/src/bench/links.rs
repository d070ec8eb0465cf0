//! `spag bench links`: measures collectives between the ranks of a launcher.

use std::ops::RangeInclusive;
use std::time::Instant;

use candle_core::{DType, Tensor};
use clap::Args;
use serde_json::{Value, json};
use spag_dist::{Collective, JoinOptions, LaunchEnv, ProcessGroup, gather_numbers, join_on};
use spag_io::format_gib;
use spag_model::dtype::WeightDtype;
use spag_ops::OpenDevice;
use spag_selfplay::text_table;
use spag_train::median;

use super::card::card;
use spag_cli::{DeviceArgs, Error, Result, exit, flags};

/// Bytes of a buffer.
const BYTES: RangeInclusive<usize> = 1..=1 << 40;
/// Rounds of a measurement.
const ROUNDS: RangeInclusive<usize> = 1..=100_000;

/// The flags of `spag bench links`.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct LinksArgs {
    /// Sizes of the buffers in bytes, separated by commas, each rounded up to whole elements for each rank. A buffer is what an all-gather
    /// gives and a reduce-scatter takes.
    #[arg(long, value_name = "N,…", default_value = "1048576,16777216,134217728", value_delimiter = ',', value_parser = flags::within(BYTES))]
    bytes: Vec<usize>,
    /// Number format of the elements: float32 or bfloat16.
    #[arg(long, value_name = "TYPE", default_value = "float32")]
    dtype: WeightDtype,
    /// Number of timed rounds, after one that is not timed. The median of the slowest rank is printed.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = flags::within(ROUNDS))]
    rounds: usize,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print a line of JSON for each collective and size instead of a table.
    #[arg(long)]
    json: bool,
}

/// A collective on a flat buffer.
#[derive(Clone, Copy)]
struct Measured {
    name: &'static str,
    start: fn(Tensor) -> Collective,
    /// Bus bandwidth over algorithm bandwidth for N ranks, as nccl-tests defines it: what a link carries does not depend on N then.
    bus: fn(f64) -> f64,
}

const COLLECTIVES: [Measured; 4] = [
    Measured { name: "all-gather", start: Collective::AllGather, bus: |n| (n - 1.0) / n },
    Measured { name: "reduce-scatter", start: Collective::ReduceScatter, bus: |n| (n - 1.0) / n },
    Measured { name: "all-reduce", start: Collective::AllReduce, bus: |n| 2.0 * (n - 1.0) / n },
    Measured { name: "broadcast", start: |buffer| Collective::Broadcast(buffer, 0), bus: |_| 1.0 },
];

/// What was measured.
struct Line {
    name: &'static str,
    bytes: usize,
    /// Median seconds of the slowest rank.
    seconds: f64,
    /// Bytes per second of the buffer.
    algorithm: f64,
    /// Bytes per second of a link.
    bus: f64,
    /// Bytes that all ranks together sent in a round.
    sent: f64,
}

pub(super) fn run(args: &LinksArgs) -> Result<()> {
    let env = LaunchEnv::detect()?;
    if env.world_size == 1 {
        let problem = "it measures several ranks; start them, as in spag launch --nproc_per_node 2 -- spag bench links";
        return Err(Error::BadValue { flag: "spag bench links".into(), problem: problem.into() });
    }
    let device = args.device.open()?;
    check_memory(args, &env, &device)?;
    let group = join_on(&env, &JoinOptions::detect()?, device.device())?;
    let mut lines = Vec::new();
    for measured in COLLECTIVES {
        for bytes in &args.bytes {
            lines.push(measure(args, measured, *bytes, &device, &*group)?);
        }
    }
    if group.rank() > 0 {
        return Ok(());
    }
    if args.json {
        let card = card(&device);
        return lines.iter().try_for_each(|line| exit::say(line.json(args, group.size(), &device, card.as_ref())));
    }
    let header = ["collective", "bytes", "ms", "algorithm GB/s", "bus GB/s"];
    let (ranks, rows) = (group.size(), lines.iter().map(Line::row).collect::<Vec<_>>());
    exit::say(format_args!("{ranks} ranks on {device}, {}\n\n{}", args.dtype, text_table(&header, &rows).trim_end()))
}

/// Rejects buffers that this machine has no memory for.
fn check_memory(args: &LinksArgs, env: &LaunchEnv, device: &OpenDevice) -> Result<()> {
    let largest = args.bytes.iter().copied().max().unwrap_or(0);
    let ranks = if device.device().is_cpu() { env.local_size } else { 1 };
    let (needed, free) = (largest.saturating_mul(ranks) as u64, device.memory()?.free);
    if needed <= free {
        return Ok(());
    }
    let problem = format!("the ranks on {device} need {}, and {} are free", format_gib(needed), format_gib(free));
    Err(Error::BadValue { flag: format!("--bytes {largest}"), problem })
}

fn measure(
    args: &LinksArgs,
    measured: Measured,
    bytes: usize,
    device: &OpenDevice,
    group: &dyn ProcessGroup,
) -> Result<Line> {
    let (ranks, element) = (group.size(), args.dtype.bytes());
    let elements = bytes.div_ceil(element * ranks) * ranks;
    let tensor = |error: candle_core::Error| Error::from(spag_dist::Error::from(error));
    // Zeros stay zeros, however often they are added.
    let buffer = Tensor::zeros(elements, DType::from(args.dtype), device.device()).map_err(tensor)?;
    let mut seconds = Vec::new();
    let mut sent = 0;
    for timed in 0..=args.rounds {
        group.barrier()?;
        let (before, began) = (group.traffic().sent, Instant::now());
        group.start((measured.start)(buffer.clone()))?.wait()?;
        // On a GPU only its stream has waited.
        device.device().synchronize().map_err(tensor)?;
        if timed > 0 {
            seconds.push(began.elapsed().as_secs_f64());
            sent += group.traffic().sent - before;
        }
    }
    let own = [median(seconds).unwrap_or(f64::NAN), sent as f64 / args.rounds as f64];
    let all = gather_numbers(group, &own)?;
    let seconds = all.iter().map(|rank| rank[0]).fold(0.0, f64::max);
    let bytes = elements * element;
    let algorithm = bytes as f64 / seconds;
    Ok(Line {
        name: measured.name,
        bytes,
        seconds,
        algorithm,
        bus: algorithm * (measured.bus)(ranks as f64),
        sent: all.iter().map(|rank| rank[1]).sum(),
    })
}

impl Line {
    fn row(&self) -> Vec<String> {
        let giga = |bytes: f64| format!("{:.3}", bytes / 1e9);
        let milliseconds = format!("{:.3}", 1e3 * self.seconds);
        vec![self.name.into(), self.bytes.to_string(), milliseconds, giga(self.algorithm), giga(self.bus)]
    }

    fn json(&self, args: &LinksArgs, ranks: usize, device: &OpenDevice, card: Option<&Value>) -> Value {
        json!({
            "what": "spag links",
            "collective": self.name,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "algorithm_gb_per_s": self.algorithm / 1e9,
            "bus_gb_per_s": self.bus / 1e9,
            "bytes_sent": self.sent,
            "ranks": ranks,
            "dtype": args.dtype.to_string(),
            "rounds": args.rounds,
            "device": device.to_string(),
            "card": card,
        })
    }
}
