//! The rows of a task's data: JSONL, a JSON list, or CSV.

use std::path::Path;

use serde_json::Value;
use spag_io::{Error, RowReader, quote, read_whole};

use crate::template::Fields;

/// Bytes of a CSV file, at most.
const MAX_CSV: u64 = 1 << 32;

/// A row with its number in the file, from 1: a line of JSONL or CSV, an element of a JSON list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) number: usize,
    pub(crate) fields: Fields,
}

/// Reads all rows. `columns` names those of a CSV file without a header.
///
/// # Errors
/// A file that cannot be read or has no rows, and a row that is damaged; the error names it.
pub(crate) fn read(path: &Path, columns: &[String]) -> spag_io::Result<Vec<Row>> {
    let rows = if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        read_csv(path, columns)?
    } else {
        let rows = RowReader::<Fields>::open_with_rows(path)?;
        rows.map(|row| row.map(|(number, fields)| Row { number, fields })).collect::<spag_io::Result<_>>()?
    };
    if rows.is_empty() { Err(Error::Empty { path: path.to_owned() }) } else { Ok(rows) }
}

fn read_csv(path: &Path, columns: &[String]) -> spag_io::Result<Vec<Row>> {
    let bytes = read_whole(path, MAX_CSV)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let invalid = |error: &csv::Error| {
        let row = error.position().map_or(1, |position| usize::try_from(position.line()).unwrap_or(usize::MAX));
        let reason = match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("it has {len} columns, and the first line has {expected_len}")
            }
            csv::ErrorKind::Utf8 { .. } => "it is not UTF-8".into(),
            other => quote(&format!("{other:?}")),
        };
        Error::Row { path: path.to_owned(), row, reason }
    };
    let mut reader = csv::ReaderBuilder::new().has_headers(columns.is_empty()).from_reader(bytes);
    let names: Vec<String> = match columns {
        [] => reader.headers().map_err(|e| invalid(&e))?.iter().map(str::to_owned).collect(),
        names => names.to_vec(),
    };
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| invalid(&e))?;
        let line = record.position().map_or(0, csv::Position::line);
        let number = usize::try_from(line).unwrap_or(usize::MAX);
        if record.len() != names.len() {
            let (len, named) = (record.len(), names.len());
            let reason = format!("it has {len} columns, and {named} are named");
            return Err(Error::Row { path: path.to_owned(), row: number, reason });
        }
        let fields = names.iter().cloned().zip(record.iter().map(|cell| Value::String(cell.to_owned()))).collect();
        rows.push(Row { number, fields });
    }
    Ok(rows)
}

/// Applies replacements to all texts of a row, in order.
pub(crate) fn replace(fields: &mut Fields, replacements: &[(String, String)]) {
    if !replacements.is_empty() {
        fields.values_mut().for_each(|value| replace_in(value, replacements));
    }
}

fn replace_in(value: &mut Value, replacements: &[(String, String)]) {
    match value {
        Value::String(text) => replace_text(text, replacements),
        Value::Array(values) => values.iter_mut().for_each(|value| replace_in(value, replacements)),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace_in(value, replacements)),
        _ => {}
    }
}

/// Applies replacements to a text, in order.
pub(crate) fn replace_text(text: &mut String, replacements: &[(String, String)]) {
    for (from, to) in replacements.iter().filter(|(from, _)| !from.is_empty()) {
        if text.contains(from.as_str()) {
            *text = text.replace(from.as_str(), to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(name: &str, text: &str, columns: &[&str]) -> spag_io::Result<Vec<Row>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        read(&path, &columns)
    }

    #[test]
    fn csv_and_jsonl_have_the_same_rows() {
        let lines = read_text("a.jsonl", "{\"q\": \"a, b\", \"n\": \"1\"}\n\n{\"q\": \"c\\nd\", \"n\": \"2\"}\n", &[]);
        let csv = read_text("a.csv", "q,n\n\"a, b\",1\n\"c\nd\",2\n", &[]);
        let bare = read_text("a.CSV", "\"a, b\",1\n\"c\nd\",2\n", &["q", "n"]);
        let fields =
            |rows: spag_io::Result<Vec<Row>>| rows.unwrap().into_iter().map(|row| row.fields).collect::<Vec<_>>();
        let lines = fields(lines);
        assert_eq!((fields(csv), fields(bare)), (lines.clone(), lines));
    }

    #[test]
    fn damaged_rows_are_named() {
        for (name, text, columns, said) in [
            ("a.jsonl", "{\"q\": 1}\n{\"q\": \n", &[][..], "row 2"),
            ("a.jsonl", "{\"q\": 1}\n[1]\n", &[], "row 2"),
            ("a.jsonl", "", &[], "empty"),
            ("a.json", "[]", &[], "empty"),
            ("a.csv", "q,n\n1,2\n1\n", &[], "row 3: it has 1 columns"),
            ("a.csv", "1,2\n", &["q"], "row 1: it has 2 columns"),
            ("a.csv", "q,n\n", &[], "empty"),
        ] {
            let error = read_text(name, text, columns).unwrap_err().to_string();
            assert!(error.contains(said), "{name} {text:?}: {error}");
        }
    }

    #[test]
    fn replacements_reach_all_texts_in_order() {
        let mut fields =
            serde_json::json!({"a": "x .", "b": ["y .", {"c": "z .", "n": 1}]}).as_object().unwrap().clone();
        replace(&mut fields, &[(" .".into(), ".".into()), ("z.".into(), "w".into())]);
        assert_eq!(serde_json::to_string(&fields).unwrap(), r#"{"a":"x.","b":["y.",{"c":"w","n":1}]}"#);
    }
}
