//! Damaged and hostile files of rows: errors name the file and the row, in one short line.

use std::fs;
use std::path::PathBuf;

use crate::{Error, RowReader};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only parsed")]
struct Row {
    name: String,
    #[serde(default)]
    count: u8,
}

fn file(folder: &tempfile::TempDir, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join("rows.jsonl");
    fs::write(&path, text).unwrap();
    path
}

fn error(text: impl AsRef<[u8]>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, text);
    RowReader::<Row>::open(path).unwrap().find_map(Result::err).unwrap().to_string()
}

#[test]
fn errors_repeat_little_of_the_file() {
    let long = "x".repeat(1 << 20);
    for text in [
        format!("{{\"name\": \"a\", \"{long}\": 1}}"),
        format!("{{\"name\": \"a\", \"count\": \"{long}\"}}"),
        "{\"name\": \"a\", \"\\u001b]0;title\\u0007\\nerror: forged\": 1}".into(),
    ] {
        let message = error(&text);
        assert!(message.contains("rows.jsonl: row 1: ") && message.contains("column"), "{message}");
        assert!(message.len() < 1000 && message.chars().all(|c| !c.is_control()), "{message}");
    }
}

#[test]
fn deep_nesting_and_odd_bytes_are_errors_of_their_row() {
    let good = "{\"name\": \"a\"}\n";
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    for (bad, why) in [
        (format!("{{\"name\": {deep}}}").into_bytes(), "invalid type"),
        (deep.into_bytes(), "row 2"),
        (b"{\"name\": \"\xff\"}".to_vec(), "unicode"),
        (b"{\"name\": \"a\0b\"}".to_vec(), "control character"),
        (b"\0\0\0".to_vec(), "row 2"),
        (b"{\"name\": \"a\", \"name\": \"b\"}".to_vec(), "duplicate field"),
        (b"{\"name\": \"a\", \"count\": 1e999}".to_vec(), "out of range"),
        (b"{\"name\": \"a\", \"count\": 123456789012345678901234567890}".to_vec(), "count"),
    ] {
        let message = error([good.as_bytes(), &bad].concat());
        assert!(message.contains("rows.jsonl: row 2: ") && message.contains(why), "{why}: {message}");
        let list = [b"[", good.as_bytes(), b",", &bad, b"]"].concat();
        let message = error(list);
        assert!(message.contains("rows.jsonl: row 2: "), "{message}");
    }
}

#[test]
fn rows_may_end_in_crlf_and_start_with_a_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "\u{feff}{\"name\": \"a\"}\r\n\r\n{\"name\": \"b\"}\r\n");
    let rows: Vec<usize> = RowReader::<Row>::open(path).unwrap().map(|row| row.unwrap().0).collect();
    assert_eq!(rows, [1, 3]);
}

#[test]
fn blank_lines_before_the_first_row_take_no_memory_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, format!("{}{{\"name\": \"a\"}}\n", "\n".repeat(1 << 20)));
    let rows: Vec<usize> = RowReader::<Row>::open(path).unwrap().map(|row| row.unwrap().0).collect();
    assert_eq!(rows, [(1 << 20) + 1]);
}

#[test]
fn row_of_a_hundred_mebibytes_is_refused() {
    for start in ["{\"name\": \"a\"}\n{\"name\": \"", "[{\"name\": \"a\"}, {\"name\": \""] {
        let message = error([start.as_bytes(), &vec![b'x'; 150 << 20]].concat());
        assert!(message.contains("rows.jsonl: row 2: this row has more than 64 MiB"), "{message}");
    }
}

#[test]
fn file_without_text_is_refused_where_rows_are_expected() {
    let folder = tempfile::tempdir().unwrap();
    for empty in ["", "\n\n", "\u{feff}", " \r\n"] {
        let opened = RowReader::<Row>::open_with_rows(file(&folder, empty));
        let error = opened.err().unwrap();
        assert!(matches!(error, Error::Empty { .. }) && error.to_string().contains("rows.jsonl"), "{error}");
    }
    for rows in ["[]", " [ ] \n", "{}", "x"] {
        RowReader::<Row>::open_with_rows(file(&folder, rows)).unwrap();
    }
    RowReader::<Row>::open_with_rows(folder.path().join("none")).unwrap_err();
}
