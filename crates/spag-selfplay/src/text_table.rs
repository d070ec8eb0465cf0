//! Tables of plain text.

use unicode_width::UnicodeWidthStr;

/// Rows as text, two spaces apart and indented by two. Columns are left-aligned and as wide on a terminal as their widest
/// cell.
pub fn text_table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str("  ");
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width()));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
