//! The launcher's environment variables: torchrun's convention first, then SLURM's, then Open MPI's.

use std::ops::RangeInclusive;

use crate::{Error, Result};

/// The default port if the launcher sets none, as in PyTorch.
pub const DEFAULT_PORT: u16 = 29500;

/// Maximum world size: rank 0 sends the addresses of all ranks in one message.
pub const MAX_WORLD_SIZE: usize = 16_384;
/// Maximum restart count.
pub(crate) const MAX_RESTARTS: usize = 1_000_000_000;

/// The launcher of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// None: a single process.
    Direct,
    /// `torchrun`, or anything else that sets RANK and WORLD_SIZE.
    Torch,
    /// SLURM's `srun`.
    Slurm,
    /// Open MPI's `mpirun`.
    OpenMpi,
}

/// The address of rank 0, where all ranks connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    /// Host name or IP address.
    pub address: String,
    /// TCP port.
    pub port: u16,
}

/// The rank of this process, the world size and the rendezvous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchEnv {
    /// The launcher.
    pub launcher: Launcher,
    /// Rank, from 0 to `world_size - 1`.
    pub rank: usize,
    /// Number of processes, at least 1.
    pub world_size: usize,
    /// Rank among the processes of this machine.
    pub local_rank: usize,
    /// Number of processes on this machine; `world_size` if the launcher does not set it.
    pub local_size: usize,
    /// `None` for a single process.
    pub rendezvous: Option<Rendezvous>,
    /// Restart count of the run. Above 0, there may be a checkpoint to resume from.
    pub restarts: usize,
}

/// The environment variables of one launcher.
struct Names {
    launcher: Launcher,
    rank: &'static str,
    /// The first variable that is set is used.
    size: &'static [&'static str],
    local_rank: &'static str,
    local_size: &'static str,
}

/// The number of tasks of a SLURM job.
const JOB_TASKS: &str = "SLURM_NTASKS";

const CONVENTIONS: [Names; 3] = [
    Names {
        launcher: Launcher::Torch,
        rank: "RANK",
        size: &["WORLD_SIZE"],
        local_rank: "LOCAL_RANK",
        local_size: "LOCAL_WORLD_SIZE",
    },
    // SLURM_NTASKS belongs to the job; a step within it may have fewer tasks.
    Names {
        launcher: Launcher::Slurm,
        rank: "SLURM_PROCID",
        size: &["SLURM_STEP_NUM_TASKS", JOB_TASKS],
        local_rank: "SLURM_LOCALID",
        local_size: "SLURM_NTASKS_PER_NODE",
    },
    Names {
        launcher: Launcher::OpenMpi,
        rank: "OMPI_COMM_WORLD_RANK",
        size: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
    },
];

impl LaunchEnv {
    /// A process without a launcher: rank 0 of 1.
    pub fn single() -> Self {
        Self {
            launcher: Launcher::Direct,
            rank: 0,
            world_size: 1,
            local_rank: 0,
            local_size: 1,
            rendezvous: None,
            restarts: 0,
        }
    }

    /// Rank `rank` of `ranks` on this machine, which connect at `port`.
    pub fn on_this_machine(rank: usize, ranks: usize, port: u16) -> Self {
        Self {
            launcher: Launcher::Torch,
            rank,
            world_size: ranks,
            local_rank: rank,
            local_size: ranks,
            rendezvous: Some(Rendezvous { address: "127.0.0.1".into(), port }),
            restarts: 0,
        }
    }

    /// Reads the environment variables of this process.
    ///
    /// # Errors
    /// A variable is missing, not a number, out of range, or inconsistent with the others.
    pub fn detect() -> Result<Self> {
        Self::detect_with(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// As [`LaunchEnv::detect`], with `lookup` in place of the environment.
    ///
    /// Uses the first convention whose rank or size is set. An empty variable counts as unset.
    ///
    /// # Errors
    /// As [`LaunchEnv::detect`].
    pub fn detect_with(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let mut alone = None;
        for names in &CONVENTIONS {
            let rank_is_set = lookup(names.rank).is_some();
            let size_name = names.size.iter().copied().find(|name| lookup(name).is_some());
            match (names.launcher, rank_is_set, size_name) {
                (_, false, None) => continue,
                // A SLURM allocation without srun: the job's sizes are set, but this process is not a task.
                (Launcher::Slurm, false, Some(_)) => continue,
                // A job script is task 0 but not a step. It may have started another launcher.
                (Launcher::Slurm, true, Some(JOB_TASKS)) if lookup(names.rank).as_deref() == Some("0") => {
                    alone = number(&lookup, JOB_TASKS, 1..=MAX_WORLD_SIZE)?.filter(|tasks| *tasks > 1);
                }
                (_, true, None) => {
                    let name = names.size.last().copied().unwrap_or_default();
                    return Err(Error::MissingVariable { name, implied_by: names.rank });
                }
                (_, false, Some(size)) => return Err(Error::MissingVariable { name: names.rank, implied_by: size }),
                (_, true, Some(size)) => return Self::read(names, size, &lookup),
            }
        }
        match alone {
            Some(tasks) => Err(Error::WithoutSrun { tasks }),
            None => Ok(Self { restarts: restarts(&lookup)?, ..Self::single() }),
        }
    }

    fn read(names: &Names, size_name: &'static str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let number = |name, at_least| number(lookup, name, at_least..=MAX_WORLD_SIZE);
        let missing = |name| Error::MissingVariable { name, implied_by: size_name };
        let rank = number(names.rank, 0)?.ok_or_else(|| missing(names.rank))?;
        let size = number(size_name, 1)?.ok_or_else(|| missing(names.rank))?;
        if rank >= size {
            return Err(Error::RankOutOfRange { name: names.rank, rank, size_name, size });
        }
        // A single process needs no local rank and no rendezvous.
        let local_rank = match number(names.local_rank, 0)? {
            Some(local_rank) if local_rank >= size => {
                return Err(Error::RankOutOfRange { name: names.local_rank, rank: local_rank, size_name, size });
            }
            Some(local_rank) => local_rank,
            None if size == 1 => 0,
            None => return Err(missing(names.local_rank)),
        };
        let local_size = number(names.local_size, 1)?.map_or(size, |local_size| local_size.min(size));
        let rendezvous = match size {
            1 => None,
            _ => Some(rendezvous(names.launcher, size_name, lookup)?),
        };
        Ok(Self {
            launcher: names.launcher,
            rank,
            world_size: size,
            local_rank,
            local_size,
            rendezvous,
            restarts: restarts(lookup)?,
        })
    }
}

pub(crate) fn number(
    lookup: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    range: RangeInclusive<usize>,
) -> Result<Option<usize>> {
    let Some(value) = lookup(name) else { return Ok(None) };
    match value.trim().parse::<usize>() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => Err(Error::NotANumber { name, value, range: range.into_inner() }),
    }
}

pub(crate) fn port(lookup: &dyn Fn(&str) -> Option<String>, name: &'static str) -> Result<Option<u16>> {
    let Some(value) = lookup(name) else { return Ok(None) };
    match value.trim().parse::<u16>() {
        Ok(port) if port > 0 => Ok(Some(port)),
        _ => Err(Error::NotAPort { name, value }),
    }
}

/// The restart count, as set by `spag launch` or torchrun.
fn restarts(lookup: &dyn Fn(&str) -> Option<String>) -> Result<usize> {
    for name in ["SPAG_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"] {
        if let Some(count) = number(lookup, name, 0..=MAX_RESTARTS)? {
            return Ok(count);
        }
    }
    Ok(0)
}

/// MASTER_ADDR and MASTER_PORT, or values inferred from the launcher's own variables.
fn rendezvous(
    launcher: Launcher,
    implied_by: &'static str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Rendezvous> {
    let inferred = match launcher {
        Launcher::Direct | Launcher::Torch => None,
        Launcher::Slurm => {
            lookup("SLURM_STEP_NODELIST").or_else(|| lookup("SLURM_NODELIST")).and_then(|list| first_host(&list))
        }
        // All ranks are on this machine.
        Launcher::OpenMpi if lookup("OMPI_COMM_WORLD_LOCAL_SIZE") == lookup("OMPI_COMM_WORLD_SIZE") => {
            Some("127.0.0.1".into())
        }
        Launcher::OpenMpi => None,
    };
    let address =
        lookup("MASTER_ADDR").or(inferred).ok_or(Error::MissingVariable { name: "MASTER_ADDR", implied_by })?;
    let port = match port(lookup, "MASTER_PORT")? {
        Some(port) => port,
        None if launcher == Launcher::Torch => return Err(Error::MissingVariable { name: "MASTER_PORT", implied_by }),
        None => DEFAULT_PORT,
    };
    Ok(Rendezvous { address, port })
}

/// The first host (that of rank 0) of a SLURM host list such as `gpu[03-05,9],login1` or `rack[1-2]node[1-4]`;
/// `None` if the list is empty or a bracket is not closed.
fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    loop {
        let Some(at) = rest.find(['[', ',']) else {
            host.push_str(rest);
            break;
        };
        let (name, tail) = rest.split_at(at);
        host.push_str(name);
        if tail.starts_with(',') {
            break;
        }
        let (ranges, after) = tail.strip_prefix('[')?.split_once(']')?;
        host.push_str(ranges.split(['-', ',']).next()?);
        rest = after;
    }
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::first_host;

    #[test]
    fn first_host_takes_the_first_number_of_every_bracket() {
        for (list, first) in [
            ("login1", "login1"),
            ("gpu[03-05,9],login1", "gpu03"),
            ("gpu[7]", "gpu7"),
            ("a,b,c", "a"),
            ("rack[1-2]node[4-8]", "rack1node4"),
            ("n[1-2].local,m", "n1.local"),
        ] {
            assert_eq!(first_host(list).as_deref(), Some(first), "{list}");
        }
    }

    #[test]
    fn first_host_rejects_malformed_lists() {
        for list in ["", "  ", "gpu[1-3", ",a"] {
            assert_eq!(first_host(list), None, "{list:?}");
        }
    }
}
