//! The report of a run as data, as text and as a page.

mod charts;
mod data;
mod html;
mod page;
mod svg;
mod text;

pub use data::{LossCurve, LossPoint, Match, NamedPlay, Report, SamplePair, ShownGame, ShownUtterance, StageSeconds};
pub use page::render_html;
pub use text::render_text;
