//! The report of a run as data, as text and as a document.

mod charts;
mod compare;
mod data;
mod document;
mod exact;
mod measures;
mod rounds;
mod summary;
mod tables;
mod text;
mod updates;
mod warnings;

pub use compare::{Arm, arms_document, arms_warnings, read_arms, render_arms};
pub use data::{
    ExactPlay, GameReport, HeldOut, ImitationPart, LossCurve, LossPoint, MatchReport, NamedPlay, Report, SamplePair,
    ShownGame, ShownUtterance, StageSeconds,
};
pub use document::report_document;
pub use measures::UpdatePoint;
pub use rounds::{Round, RoundGames, RoundTraining};
pub use summary::render_summary;
pub use text::render_text;
