//! Results for programs.

use crate::arena::ArenaTable;
use crate::error::{Error, Result};

/// The results as indented JSON with a newline at its end; [`ArenaTable`] reads it again.
///
/// # Errors
/// [`Error::Render`], which no table of this crate leads to.
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
    fn what_is_written_is_read_again() {
        let table = example(Some("im"));
        let text = render_json(&table).unwrap();
        assert!(text.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<ArenaTable>(&text).unwrap(), table);
    }
}
