//! Tables of plain text.

use spag_io::escape;
use unicode_width::UnicodeWidthStr;

/// A table with a header, if it is not empty. Lines are indented by two spaces; columns are two spaces apart, numbers to the
/// right and others to the left, and as wide on a terminal as their widest cell. Cells are escaped, so that each is one line.
pub fn text_table<S: AsRef<str>>(header: &[S], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|name| name.as_ref().to_owned()).collect();
    let rows_of: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escape(cell).into_owned()).collect()).collect();
    let rows = || std::iter::once(&header).filter(|header| !header.is_empty()).chain(&rows_of);
    let columns = rows().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let numeric: Vec<bool> = (0..columns).map(|column| is_numeric(&rows_of, column)).collect();
    let mut out = String::new();
    for row in rows() {
        let mut line = String::new();
        for ((cell, width), is_number) in row.iter().zip(&widths).zip(&numeric) {
            let padding = " ".repeat(width - cell.width());
            line.push_str("  ");
            line.push_str(if *is_number { &padding } else { cell });
            line.push_str(if *is_number { cell } else { &padding });
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Whether the cells of a column are numbers, of which none has an interval: they and their header are aligned to the right.
/// The first column names rows.
fn is_numeric(rows: &[Vec<String>], column: usize) -> bool {
    let cells = || rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
    let is_number = |cell: &String| cell.chars().all(|c| c.is_ascii_digit() || ".,+-−–:<≥ %".contains(c));
    column > 0 && cells().all(is_number) && cells().any(|cell| cell.contains(|c: char| c.is_ascii_digit()))
}

/// A number with `digits` decimals, without a sign if these are all 0, or a dash for `None`.
pub fn number_or_dash(value: Option<f64>, digits: usize) -> String {
    let Some(value) = value else { return "–".to_owned() };
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(unsigned) if unsigned.bytes().all(|byte| matches!(byte, b'0' | b'.')) => unsigned.to_owned(),
        _ => text,
    }
}

/// A number with `digits` decimals and a sign, which is + if these are all 0.
pub fn signed(value: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", value.abs());
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    format!("{}{text}", if value < 0.0 && !is_zero { '−' } else { '+' })
}

#[cfg(test)]
mod tests {
    use super::{number_or_dash, signed, text_table};

    #[test]
    fn number_that_rounds_to_0_has_no_sign() {
        let shown = [Some(-0.00004), Some(-0.5), Some(-0.0), None].map(|value| number_or_dash(value, 4));
        assert_eq!(shown, ["0.0000", "-0.5000", "0.0000", "–"]);
        assert_eq!(number_or_dash(Some(f64::NEG_INFINITY), 1), "-inf");
    }

    #[test]
    fn points_that_round_to_0_have_a_plus_sign() {
        assert_eq!([3.4, -3.6, -0.2, -0.0].map(|points| signed(points, 0)), ["+3", "−4", "+0", "+0"]);
        assert_eq!([-0.04, -0.06].map(|points| signed(points, 1)), ["+0.0", "−0.1"]);
    }

    #[test]
    fn numbers_are_aligned_to_the_right_and_intervals_are_not() {
        let row = |name: &str, games: &str, change: &str| [name, games, change].map(str::to_owned).to_vec();
        let table = text_table(&["1", "games", "%"], &[row("5", "7", "1 [0, 2]"), row("10", "–", "")]);
        assert_eq!(table, "  1   games  %\n  5       7  1 [0, 2]\n  10      –\n");
    }

    #[test]
    fn cell_cannot_forge_a_row_or_drive_the_terminal() {
        let rows = [vec!["a\n  b  1".to_owned(), "2".to_owned()], vec!["\u{1b}]0;x\u{7}".to_owned(), "3".to_owned()]];
        let table = text_table(&["name", "games"], &rows);
        assert_eq!(table, "  name             games\n  a\\n  b  1            2\n  \\u{1b}]0;x\\u{7}      3\n");
    }
}
