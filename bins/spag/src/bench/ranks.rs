//! Which ranks take the steps that are timed: those that a launcher has started, or modelled ones.

use std::time::Duration;

use clap::Args;
use spag_dist::{Link, Links};
use spag_train::{ShardingPlan, ZeroStage};

use spag_cli::{Error, Result, flags};

/// The flags of several ranks.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct RankArgs {
    /// What is split over the ranks: 0 nothing, 1 AdamW's state, 2 gradients too, 3 parameters too.
    #[arg(long, value_name = "STAGE", default_value = "0", help_heading = "Ranks")]
    pub(super) zero_stage: ZeroStage,
    /// Run the schedule of one of so many ranks and model the others' links; several numbers, one after another.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = flags::count, help_heading = "Ranks")]
    pub(super) simulate: Vec<usize>,
    /// Links to model: dgx-a100, dgx-h200, a100-pcie, or own.
    #[arg(long, value_name = "NAME", default_value = "dgx-a100", help_heading = "Ranks")]
    links: String,
    /// Of own links: GB/s in each direction.
    #[arg(long, value_name = "GB/S", default_value_t = 1.0, value_parser = flags::positive, help_heading = "Ranks")]
    link_bandwidth: f64,
    /// Of own links: microseconds a hop.
    #[arg(long, value_name = "US", default_value_t = 50.0, value_parser = flags::not_negative, help_heading = "Ranks")]
    link_latency: f64,
}

impl RankArgs {
    /// What is sharded.
    pub(super) fn plan(&self) -> ShardingPlan {
        ShardingPlan { stage: self.zero_stage, ..ShardingPlan::default() }
    }

    /// The links that are modelled.
    pub(super) fn links(&self) -> Result<Links> {
        match self.links.as_str() {
            "dgx-a100" => Ok(Links::dgx_a100()),
            "dgx-h200" => Ok(Links::dgx_h200()),
            "a100-pcie" => Ok(Links::a100_pcie()),
            "own" => Ok(Links::uniform(
                "own links",
                Link {
                    bandwidth: self.link_bandwidth * 1e9,
                    latency: Duration::from_secs_f64(self.link_latency.min(1e9) / 1e6),
                },
            )),
            other => Err(Error::BadValue {
                flag: format!("--links {other}"),
                problem: "dgx-a100, dgx-h200, a100-pcie and own are known".into(),
            }),
        }
    }
}
