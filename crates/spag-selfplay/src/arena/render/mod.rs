//! An [`ArenaTable`] as text, JSON and CSV, with the same numbers.

mod csv;
mod text;

pub use csv::render_csv;
pub use text::render_text;

use super::ArenaTable;
use crate::error::{Error, Result};

/// The results as indented JSON with a final newline, from which [`ArenaTable`] can be deserialised.
///
/// # Errors
/// [`Error::Render`], which no table of this crate causes.
pub fn render_json(table: &ArenaTable) -> Result<String> {
    let text = serde_json::to_string_pretty(table)
        .map_err(|error| Error::Render { format: "JSON", message: error.to_string() })?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::table::tests::example;

    #[test]
    fn json_reads_back_as_the_same_table() {
        let table = example(Some("im"));
        let text = render_json(&table).unwrap();
        assert!(text.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<ArenaTable>(&text).unwrap(), table);
    }
}
