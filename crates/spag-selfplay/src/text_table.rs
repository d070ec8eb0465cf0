//! Tables of plain text.

use unicode_width::UnicodeWidthStr;

/// A table with a header, if it is not empty. Lines are indented by two spaces; columns are left-aligned, two spaces apart,
/// and as wide on a terminal as their widest cell.
pub fn text_table(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let rows = || std::iter::once(&header).filter(|header| !header.is_empty()).chain(rows);
    let columns = rows().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows() {
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
