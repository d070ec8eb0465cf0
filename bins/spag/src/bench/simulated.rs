//! Ranks that do not exist, beside which `spag bench train` measures rank 0.

use std::ops::RangeInclusive;
use std::sync::Arc;

use candle_core::Device;
use clap::Args;
use serde_json::{Value, json};
use spag_dist::{GatherPriority, LaunchEnv, MAX_WORLD_SIZE, SimulatedGroup, SimulatedRanks};

use super::round;
use spag_cli::{Error, Result, flags};

/// Ranks.
const RANKS: RangeInclusive<usize> = 1..=MAX_WORLD_SIZE;
/// Bandwidths.
const BANDWIDTH: RangeInclusive<f64> = 1e-3..=1e6;

/// The flags of simulated ranks.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case", next_help_heading = "Simulated ranks")]
pub(super) struct SimulatedArgs {
    /// Measure rank 0 of N ranks in this process alone: it has the memory and the work of that rank, and collectives are copies that
    /// take the time of a ring at the bandwidths below. The loss has no meaning.
    #[arg(long, value_name = "N", value_parser = flags::within(RANKS))]
    simulate_ranks: Option<usize>,
    /// Ranks of a host.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = flags::within(RANKS), requires = "simulate_ranks")]
    gpus_per_node: usize,
    /// GB/s that a rank sends to the next one of its host: the bus bandwidth of spag bench links.
    #[arg(long, value_name = "GB/S", default_value_t = 200.0, value_parser = flags::within(BANDWIDTH), requires = "simulate_ranks")]
    link: f64,
    /// Gbit/s between hosts, per host and in each direction.
    #[arg(long, value_name = "GBIT", default_value_t = 200.0, value_parser = flags::within(BANDWIDTH), requires = "simulate_ranks")]
    network: f64,
    /// How collectives run; variants change it.
    #[arg(skip)]
    pub(super) collectives: Collectives,
}

/// How the collectives of simulated ranks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Collectives {
    /// They take their time, and gathers overtake reductions.
    #[default]
    Timed,
    /// They take their time in the order in which they were started.
    TimedInTurn,
    /// They take no time but that of their copies.
    Instant,
}

impl SimulatedArgs {
    /// All ranks and those of a host: simulated ones, or those of the launcher.
    pub(super) fn ranks(&self, env: &LaunchEnv) -> (usize, usize) {
        match self.simulate_ranks {
            Some(size) => (size, self.gpus_per_node.min(size)),
            None => (env.world_size, env.local_size),
        }
    }

    /// Rejects simulated ranks in a launcher, on hosts of unequal size, and variants without simulated ranks.
    pub(super) fn check(&self, env: &LaunchEnv) -> Result<()> {
        let bad = |flag: String, problem: &str| Err(Error::BadValue { flag, problem: problem.into() });
        match self.simulate_ranks {
            None if self.collectives != Collectives::default() => {
                bad("--variants".into(), "instant-links and links-in-turn are of simulated ranks; add --simulate_ranks")
            }
            Some(size) if env.world_size > 1 => {
                bad(format!("--simulate_ranks {size}"), "one process simulates the ranks; start it without a launcher")
            }
            Some(size) if !size.is_multiple_of(self.gpus_per_node.min(size)) => bad(
                format!("--simulate_ranks {size} --gpus_per_node {}", self.gpus_per_node),
                "hosts have equally many ranks; choose a multiple",
            ),
            _ => Ok(()),
        }
    }

    /// The group whose rank 0 this process is; `None` if its ranks exist.
    pub(super) fn group(&self, device: &Device) -> Result<Option<Arc<SimulatedGroup>>> {
        let Some(size) = self.simulate_ranks else { return Ok(None) };
        let instant = self.collectives == Collectives::Instant;
        let ranks = SimulatedRanks {
            size,
            local_size: self.gpus_per_node.min(size),
            link: if instant { f64::INFINITY } else { self.link * 1e9 },
            network: if instant { f64::INFINITY } else { self.network * 1e9 / 8.0 },
            priority: match self.collectives {
                Collectives::TimedInTurn => GatherPriority::InTurn,
                Collectives::Timed | Collectives::Instant => GatherPriority::Overtake,
            },
        };
        Ok(Some(Arc::new(SimulatedGroup::start(ranks, device)?)))
    }

    /// What a line of output has of them: the time of their links, per step of all `steps`, timed or not.
    pub(super) fn line(&self, link_seconds: f64) -> Value {
        if self.simulate_ranks.is_none() {
            return Value::Null;
        }
        json!({
            "gpus_per_node": self.gpus_per_node,
            "link_gb_per_s": self.link,
            "network_gbit_per_s": self.network,
            "link_seconds_per_step": round(link_seconds, 5),
        })
    }
}
