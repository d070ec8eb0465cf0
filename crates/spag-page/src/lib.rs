//! The pages of `spag serve` and of `spag watch`.
#![doc = include_str!("../README.md")]

mod assets;
mod error;
mod game;
mod page;
mod runs;
mod watch;

pub use error::{Error, Result};
pub use game::PageEndpoint;
pub use page::{Page, PageConfig, PageGame};
pub use runs::{RunGame, RunSettings};
pub use watch::WatchPage;
