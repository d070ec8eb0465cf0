//! The processes that share the games of a job.

use std::fmt;
use std::sync::Arc;

use spag_dist::queue::Queue;
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup};

use crate::error::Result;

/// The processes that share the games of a job through a queue of rank 0.
#[derive(Clone)]
pub enum Ranks {
    /// This process alone.
    Single,
    /// The ranks of a launcher, which have no process group. If a rank dies, its games are reassigned to the others.
    Launched(LaunchEnv),
    /// The ranks of a process group, which is also used for other work and fails with any of its ranks.
    Group {
        /// The group.
        group: Arc<dyn ProcessGroup>,
        /// The launcher's environment, with the address of rank 0.
        env: LaunchEnv,
    },
}

impl Ranks {
    /// The rank of this process.
    pub fn rank(&self) -> usize {
        match self {
            Self::Single => 0,
            Self::Launched(env) => env.rank,
            Self::Group { group, .. } => group.rank(),
        }
    }

    /// The number of processes.
    pub fn world_size(&self) -> usize {
        match self {
            Self::Single => 1,
            Self::Launched(env) => env.world_size,
            Self::Group { group, .. } => group.size(),
        }
    }

    /// The queue of a launcher's ranks, who join before they load models; rank 0 waits for the others. A group waits here
    /// until all of its ranks have opened the job, so that all know the same games before one of them plays.
    pub(super) fn join(&self, task: &str, games: usize) -> Result<Option<Queue>> {
        match self {
            Self::Launched(env) if env.world_size > 1 => {
                Ok(Some(Queue::open(env, &JoinOptions::detect()?, task, games)?))
            }
            Self::Single | Self::Launched(_) => Ok(None),
            Self::Group { group, .. } => {
                group.barrier()?;
                Ok(None)
            }
        }
    }

    /// The queue of a group, which only lives while games are played.
    pub(super) fn join_beside(&self, task: &str, games: usize) -> Result<Option<Queue>> {
        match self {
            Self::Group { group, env } if group.size() > 1 => {
                Ok(Some(Queue::open_beside(&**group, env, &JoinOptions::detect()?, task, games)?))
            }
            _ => Ok(None),
        }
    }

    /// Waits for all ranks of a group. Launched ranks wait for each other in their queue.
    pub(super) fn barrier(&self) -> Result<()> {
        match self {
            Self::Group { group, .. } => Ok(group.barrier()?),
            Self::Single | Self::Launched(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Single => "Single",
            Self::Launched(_) => "Launched",
            Self::Group { .. } => "Group",
        };
        write!(f, "{name}(rank {} of {})", self.rank(), self.world_size())
    }
}
