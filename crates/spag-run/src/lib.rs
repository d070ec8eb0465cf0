//! A run folder: what its files are called and what they hold, for the run that writes them and for programs that read them, also
//! while the run goes on. A report is a [`Document`](document::Document): data that the live pages and files of their own draw.

// ── What a run writes ──
pub mod files;
mod metrics;
mod model;
mod provenance;
mod stages;
mod status;

// ── What is told of it ──
mod alarms;
pub mod document;

// ── How it is read ──
mod curves;
mod folder;
mod follow;
mod ranks;
mod thinned;

pub use alarms::{MANY_TIES, UpdateMeasures};
pub use curves::Curves;
pub use folder::{RunFolder, RunIdentity};
pub use follow::{FileIdentity, Follower, Found, Line};
pub use metrics::{TrainingRow, measure_of};
pub use model::Model;
pub use provenance::{PlayedGames, Provenance};
pub use ranks::{Life, Rank, Ranks};
pub use stages::{Stage, StageDone};
pub use status::{RankState, RankStatus};
pub use thinned::{KEPT, Thinned};
