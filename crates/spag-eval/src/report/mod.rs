//! The scores of models side by side: a table, a radar plot, and a document with both.

mod radar;
mod scores;
mod table;
#[cfg(test)]
mod tests;

pub use scores::{scores_document, scores_parts};
pub use table::render_table;
