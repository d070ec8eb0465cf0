//! What a launcher told this process: torchrun's convention first, then SLURM's, then Open MPI's.

use crate::{Error, Result, hostlist::first_host};

/// The port used when a launcher names none: the one PyTorch takes.
pub const DEFAULT_PORT: u16 = 29500;

/// Who started this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// Nobody that says so: the process is on its own.
    Direct,
    /// `torchrun`, or anything else that sets RANK and WORLD_SIZE.
    Torch,
    /// SLURM's `srun`.
    Slurm,
    /// Open MPI's `mpirun`.
    OpenMpi,
}

/// Where the processes of a run meet: an address of rank 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    /// Host name or IP address.
    pub address: String,
    /// TCP port.
    pub port: u16,
}

/// This process's place among those started together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchEnv {
    /// Who started the process.
    pub launcher: Launcher,
    /// This process's number among all, from 0 to `world_size - 1`.
    pub rank: usize,
    /// The number of processes, at least 1.
    pub world_size: usize,
    /// This process's number among those on the same machine.
    pub local_rank: usize,
    /// The number of processes on the same machine; where the launcher does not say it, as if all were there.
    pub local_size: usize,
    /// Where all processes meet; `None` for a process on its own.
    pub rendezvous: Option<Rendezvous>,
    /// How often the launcher has started the run again: above 0, there may be something to go on from.
    pub restarts: usize,
}

/// The names under which one launcher says where a process stands.
struct Names {
    launcher: Launcher,
    rank: &'static str,
    /// Several, the more telling first: the first one that is set counts.
    size: &'static [&'static str],
    local_rank: &'static str,
    local_size: &'static str,
}

const CONVENTIONS: [Names; 3] = [
    Names {
        launcher: Launcher::Torch,
        rank: "RANK",
        size: &["WORLD_SIZE"],
        local_rank: "LOCAL_RANK",
        local_size: "LOCAL_WORLD_SIZE",
    },
    // SLURM_NTASKS is what the job asked for; a step started by srun within it may have fewer tasks.
    Names {
        launcher: Launcher::Slurm,
        rank: "SLURM_PROCID",
        size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
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
    /// A process that nobody launched: rank 0 of 1.
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

    /// Rank `rank` of `ranks` that all run on this machine and meet at `port`.
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

    /// Reads the environment of this process.
    ///
    /// # Errors
    /// Names the variable and its value when one is missing, is not a number, or does not fit the others.
    pub fn detect() -> Result<Self> {
        Self::detect_with(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Reads an environment given as a look-up from a variable's name to its value.
    ///
    /// The first convention of which the rank or the size is set is the one that counts. A variable that is
    /// set to nothing is taken as not set, as shells and schedulers leave them behind.
    ///
    /// # Errors
    /// As [`LaunchEnv::detect`].
    pub fn detect_with(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        for names in &CONVENTIONS {
            let rank_is_set = lookup(names.rank).is_some();
            let size_name = names.size.iter().copied().find(|name| lookup(name).is_some());
            match (names.launcher, rank_is_set, size_name) {
                (_, false, None) => continue,
                // A SLURM allocation without srun: the sizes of the job are there, but no tasks were started.
                (Launcher::Slurm, false, Some(_)) => continue,
                (_, true, None) => {
                    let name = names.size.last().copied().unwrap_or_default();
                    return Err(Error::MissingVariable { name, implied_by: names.rank });
                }
                (_, false, Some(size)) => return Err(Error::MissingVariable { name: names.rank, implied_by: size }),
                (_, true, Some(size)) => return Self::read(names, size, &lookup),
            }
        }
        Ok(Self { restarts: restarts(&lookup)?, ..Self::single() })
    }

    fn read(names: &Names, size_name: &'static str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let number = |name, at_least| number(lookup, name, at_least);
        let missing = |name| Error::MissingVariable { name, implied_by: size_name };
        let rank = number(names.rank, 0)?.ok_or_else(|| missing(names.rank))?;
        let size = number(size_name, 1)?.ok_or_else(|| missing(names.rank))?;
        if rank >= size {
            return Err(Error::RankOutOfRange { name: names.rank, rank, size_name, size });
        }
        // A lone process needs no device number and no place to meet.
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

fn number(lookup: &dyn Fn(&str) -> Option<String>, name: &'static str, at_least: usize) -> Result<Option<usize>> {
    let Some(value) = lookup(name) else { return Ok(None) };
    match value.trim().parse::<usize>() {
        Ok(number) if number >= at_least => Ok(Some(number)),
        _ => Err(Error::NotANumber { name, value, at_least }),
    }
}

/// What `spag launch` says of it, or torchrun.
fn restarts(lookup: &dyn Fn(&str) -> Option<String>) -> Result<usize> {
    for name in ["SPAG_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"] {
        if let Some(count) = number(lookup, name, 0)? {
            return Ok(count);
        }
    }
    Ok(0)
}

/// Where to meet: MASTER_ADDR and MASTER_PORT, and where a launcher does not set them, what it does tell.
fn rendezvous(
    launcher: Launcher,
    implied_by: &'static str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Rendezvous> {
    let told = match launcher {
        Launcher::Direct | Launcher::Torch => None,
        Launcher::Slurm => {
            lookup("SLURM_STEP_NODELIST").or_else(|| lookup("SLURM_NODELIST")).and_then(|list| first_host(&list))
        }
        // All on this machine: the loopback address will do.
        Launcher::OpenMpi if lookup("OMPI_COMM_WORLD_LOCAL_SIZE") == lookup("OMPI_COMM_WORLD_SIZE") => {
            Some("127.0.0.1".into())
        }
        Launcher::OpenMpi => None,
    };
    let address = lookup("MASTER_ADDR").or(told).ok_or(Error::MissingVariable { name: "MASTER_ADDR", implied_by })?;
    let port = match lookup("MASTER_PORT") {
        Some(value) => match value.trim().parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => return Err(Error::NotAPort { name: "MASTER_PORT", value }),
        },
        None if launcher == Launcher::Torch => return Err(Error::MissingVariable { name: "MASTER_PORT", implied_by }),
        None => DEFAULT_PORT,
    };
    Ok(Rendezvous { address, port })
}
