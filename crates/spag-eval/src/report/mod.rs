//! The scores of models side by side: a table, a radar plot, and a page with both.

mod page;
mod radar;
mod table;
#[cfg(test)]
mod tests;

pub use page::{render_page, render_section};
pub use radar::radar;
pub use table::render_table;
