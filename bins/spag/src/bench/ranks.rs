//! The flags of timed ranks: real ones or modelled ones.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;
use spag_dist::{Link, Links};
use spag_train::{ShardingPlan, ZeroStage};

use spag_cli::{Error, Result, flags};

/// Modelled ranks.
const RANKS: RangeInclusive<usize> = 1..=65_536;
/// GB/s of a modelled link.
const BANDWIDTH: RangeInclusive<f64> = 0.001..=1e6;
/// Microseconds per hop of a modelled link.
const LATENCY: RangeInclusive<f64> = 0.0..=1e6;

/// The flags of ranks.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct RankArgs {
    /// What is split over the ranks: 0 nothing, 1 AdamW's state, 2 gradients too, 3 parameters too.
    #[arg(long, value_name = "STAGE", default_value = "0", help_heading = "Ranks")]
    pub(super) zero_stage: ZeroStage,
    /// Run the schedule of one of N ranks (at most 65536) with modelled links to the others. Several numbers, separated by
    /// commas, are run in turn.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = flags::within(RANKS), help_heading = "Ranks")]
    pub(super) simulate: Vec<usize>,
    /// Modelled links: dgx-a100, dgx-h200, a100-pcie, or own.
    #[arg(long, value_name = "NAME", default_value = "dgx-a100", help_heading = "Ranks")]
    links: String,
    /// Bandwidth of own links in GB/s per direction, from 0.001 to 1000000.
    #[arg(long, value_name = "GB/S", default_value_t = 1.0, value_parser = flags::within(BANDWIDTH), help_heading = "Ranks")]
    link_bandwidth: f64,
    /// Latency of own links in microseconds per hop, at most 1000000 (a second).
    #[arg(long, value_name = "US", default_value_t = 50.0, value_parser = flags::within(LATENCY), help_heading = "Ranks")]
    link_latency: f64,
}

impl RankArgs {
    /// What is sharded.
    pub(super) fn plan(&self) -> ShardingPlan {
        ShardingPlan { stage: self.zero_stage, ..ShardingPlan::default() }
    }

    /// The modelled links.
    ///
    /// # Errors
    /// The name is unknown.
    pub(super) fn links(&self) -> Result<Links> {
        match self.links.as_str() {
            "dgx-a100" => Ok(Links::dgx_a100()),
            "dgx-h200" => Ok(Links::dgx_h200()),
            "a100-pcie" => Ok(Links::a100_pcie()),
            "own" => Ok(Links::uniform(
                "own links",
                Link {
                    bandwidth: self.link_bandwidth * 1e9,
                    latency: Duration::from_secs_f64(self.link_latency / 1e6),
                },
            )),
            other => Err(Error::BadValue {
                flag: format!("--links {other}"),
                problem: "dgx-a100, dgx-h200, a100-pcie and own are known".into(),
            }),
        }
    }
}
