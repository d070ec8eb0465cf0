//! What `spag-play` needs beyond the job itself: who sits at the table, how it is told, and how it is stopped.

mod interrupts;
mod metered;
mod table;
mod watch;

pub(crate) use interrupts::Interrupts;
pub(crate) use table::{Table, TokenCounts};
pub(crate) use watch::Watch;
