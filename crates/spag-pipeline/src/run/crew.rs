//! The processes that run the loop together.

use std::net::TcpListener;
use std::sync::Arc;

use spag_dist::queue::Queue;
use spag_dist::{JoinOptions, LaunchEnv, PortChoice, ProcessGroup, agree, text_of_first};

use crate::config::RunConfig;
use crate::error::{Error, Result};

/// The processes of a run. Rank 0 alone decides what is to be done, and writes what is not a rank's own; all of them
/// play and train.
#[derive(Clone)]
pub(crate) struct Crew {
    env: LaunchEnv,
    group: Arc<dyn ProcessGroup>,
}

impl Crew {
    /// The processes of `group`, all of which were told the same.
    ///
    /// # Errors
    /// One that was told something else.
    pub(crate) fn new(env: &LaunchEnv, group: Arc<dyn ProcessGroup>, config: &RunConfig) -> Result<Self> {
        agree(&*group, &[("the configuration", config.to_toml()?)])?;
        Ok(Self { env: env.clone(), group })
    }

    pub(crate) fn env(&self) -> &LaunchEnv {
        &self.env
    }

    pub(crate) fn group(&self) -> &Arc<dyn ProcessGroup> {
        &self.group
    }

    /// Whether this is rank 0.
    pub(crate) fn is_first(&self) -> bool {
        self.group.rank() == 0
    }

    /// Rank 0's answer, on every rank.
    pub(crate) fn decide(&self, on_first: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let own = if self.is_first() && on_first()? { "yes" } else { "" };
        Ok(text_of_first(&*self.group, own)? == "yes")
    }

    /// Has rank 0 do something while the others wait.
    pub(crate) fn first_does(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_first() {
            work()?;
        }
        self.meet()
    }

    /// Waits until all ranks are here.
    pub(crate) fn meet(&self) -> Result<()> {
        Ok(self.group.barrier()?)
    }

    /// A queue of `items` pieces of work; none for a process on its own.
    pub(crate) fn queue(&self, task: &str, items: usize) -> Result<Option<Queue>> {
        if self.group.size() == 1 {
            return Ok(None);
        }
        // A port beside the group's, which stays open: one that rank 0 finds free.
        let found = match self.is_first() {
            true => free_port()?.to_string(),
            false => String::new(),
        };
        let named = text_of_first(&*self.group, &found)?;
        let port = named.parse().map(PortChoice::Fixed).unwrap_or_default();
        let options = JoinOptions { port, ..JoinOptions::detect()? };
        Ok(Some(Queue::open(&self.env, &options, task, items)?))
    }
}

fn free_port() -> Result<u16> {
    let bound = TcpListener::bind(("0.0.0.0", 0)).and_then(|socket| socket.local_addr());
    Ok(bound.map_err(Error::io("find a free port", "0.0.0.0"))?.port())
}
