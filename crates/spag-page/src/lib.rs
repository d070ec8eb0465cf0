//! The pages of `spag serve` and of `spag watch`, and games as environments of other programs (`spag env --serve`).
#![doc = include_str!("../README.md")]

mod assets;
mod env;
mod error;
mod game;
mod page;
mod runs;
mod watch;

pub use env::{Environments, SessionLimits};
pub use error::{Error, Result};
pub use game::PageEndpoint;
pub use page::{Page, PageConfig, PageGame};
pub use runs::{RunGame, RunSettings};
pub use watch::WatchPage;
