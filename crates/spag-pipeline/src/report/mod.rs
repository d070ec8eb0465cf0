//! The report of a run as data, as text and as a page.

mod charts;
mod compare;
mod data;
mod exact;
mod page;
mod rounds;
mod summary;
mod svg;
mod text;
mod updates;
mod warnings;

pub use compare::{Arm, arms_page, arms_warnings, read_arms, render_arms};
pub use data::{
    ExactPlay, GameReport, HeldOut, ImitationPart, LossCurve, LossPoint, MatchReport, NamedPlay, Report, SamplePair,
    ShownGame, ShownUtterance, StageSeconds,
};
pub use page::render_html;
pub use rounds::{Round, RoundGames, RoundTraining};
pub use summary::render_summary;
pub use text::render_text;
pub use updates::UpdatePoint;
