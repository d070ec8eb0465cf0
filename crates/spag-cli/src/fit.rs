//! Tables on a terminal: those that are wider than it are cut into parts below each other.

use std::ops::Range;

use unicode_width::UnicodeWidthStr;

/// The text with every table that is wider than `width` cut into parts, each with the first column. A table is a block of
/// lines that are indented by two spaces, with two spaces between its columns.
pub(crate) fn fit_tables(text: &str, width: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = Vec::with_capacity(lines.len());
    for block in lines.chunk_by(|one, other| is_row(one) == is_row(other)) {
        match block {
            [_, _, ..] if is_row(block[0]) && block.iter().any(|line| line.width() > width) => {
                out.extend(parts(block, width));
            }
            _ => out.extend(block.iter().map(|line| (*line).to_owned())),
        }
    }
    out.join("\n")
}

fn is_row(line: &str) -> bool {
    line.starts_with("  ")
}

/// The parts of a table, with an empty line between them.
fn parts(block: &[&str], width: usize) -> Vec<String> {
    let rows: Vec<Vec<char>> = block.iter().map(|line| line.chars().collect()).collect();
    let columns = columns(&rows);
    let [first, rest @ ..] = &columns[..] else { return Vec::new() };
    if rest.is_empty() {
        return block.iter().map(|line| (*line).to_owned()).collect();
    }
    let cell = |row: &[char], column: &Range<usize>| -> String {
        let text: String = row.iter().take(column.end).skip(column.start).collect();
        let padding = " ".repeat(column.len().saturating_sub(text.chars().count()));
        format!("  {text}{padding}")
    };
    let mut out = Vec::new();
    let mut rest = rest;
    while !rest.is_empty() {
        let mut used = 2 + first.len();
        let fitting = rest.iter().take_while(|column| {
            used += 2 + column.len();
            used <= width
        });
        let (part, later) = rest.split_at(fitting.count().max(1));
        if !out.is_empty() {
            out.push(String::new());
        }
        let line = |row: &Vec<char>| {
            let cells: String = std::iter::once(first).chain(part).map(|column| cell(row, column)).collect();
            cells.trim_end().to_owned()
        };
        out.extend(rows.iter().map(line));
        rest = later;
    }
    out
}

/// The places of the columns: what two spaces in all rows separate.
fn columns(rows: &[Vec<char>]) -> Vec<Range<usize>> {
    let length = rows.iter().map(Vec::len).max().unwrap_or(0);
    let is_blank = |at: usize| rows.iter().all(|row| row.get(at).is_none_or(|c| *c == ' '));
    let mut columns: Vec<Range<usize>> = Vec::new();
    for at in (0..length).filter(|at| !is_blank(*at)) {
        match columns.last_mut() {
            Some(last) if at < last.end + 2 => last.end = at + 1,
            _ => columns.push(at..at + 1),
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "Games\n\n  model   games  won\n  IM        600  50.0 [45, 55]\n  SPAG-1     60  7.0 [4, 9]\n\nEnd";

    #[test]
    fn wide_tables_are_cut_between_columns_and_keep_the_first_one() {
        assert_eq!(fit_tables(TABLE, 80), TABLE);
        let expected = "Games\n\n  model   games\n  IM        600\n  SPAG-1     60\n\n  model   won\n  IM      50.0 [45, 55]\n  SPAG-1  7.0 [4, 9]\n\nEnd";
        assert_eq!(fit_tables(TABLE, 24), expected);
        // A column that does not fit has a part of its own.
        assert_eq!(fit_tables(TABLE, 5), expected);
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["", "one long line of words", "  a single indented line", "  one\n  column\n  alone"] {
            assert_eq!(fit_tables(text, 4), text);
        }
    }
}
