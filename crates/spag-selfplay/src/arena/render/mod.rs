//! An [`ArenaTable`](super::ArenaTable) as text, JSON and CSV: the same numbers in all.

mod csv;
mod json;
mod text;

pub use csv::render_csv;
pub use json::render_json;
pub use text::render_text;
