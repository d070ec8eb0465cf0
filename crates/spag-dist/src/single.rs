//! The group of one process.

use crate::{Collective, Pending, ProcessGroup, Result, Traffic};

/// One process on its own: every collective leaves its buffer as it is, and checks it as any other group does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Single;

impl ProcessGroup for Single {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn start(&self, collective: Collective) -> Result<Pending> {
        collective.check(1)?;
        Ok(Pending::done())
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    fn abort(&self, _reason: &str) {}
}
