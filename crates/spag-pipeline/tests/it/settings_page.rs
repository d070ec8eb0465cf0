//! `docs/SETTINGS.md` has every setting of a run file, as it is declared.

use std::fmt::Write as _;

use serde_json::Value;
use spag_io::{Declared, Settings as _};
use spag_pipeline::RunConfig;

const HEAD: &str = "# Settings of a run file

Every setting of `spag run FILE` with its default. `–` is a setting that is off, follows from others or from the model. [RUNS](RUNS.md)
says what a run does with them; `--set table.key=value` sets one on the command line. This page is written from the declarations by a
test: `SPAG_WRITE_SETTINGS=1 cargo test --release -p spag-pipeline settings_page`.
";

/// The tables after the one at the top, in the order of their declaration.
fn tables(path: &str, settings: &[Declared], page: &mut String) {
    let values: Vec<&Declared> = settings.iter().filter(|setting| setting.inner.is_none()).collect();
    if !values.is_empty() {
        page.push_str("| setting | default | |\n|---|---|---|\n");
    }
    for setting in values {
        let (doc, expected) = (text(setting.doc), setting.expected.as_deref().unwrap_or_default());
        let expected =
            expected.replace("expected a whole number of", "A whole number,").replace("expected a number of", "");
        let expected = expected.trim();
        let mut limits = expected.to_owned();
        if let Some(first) = limits.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let limits = if limits.is_empty() { limits } else { format!(" {limits}.") };
        writeln!(page, "| `{}` | {} | {doc}{limits} |", setting.key, shown(&setting.default)).unwrap();
    }
    for setting in settings {
        let Some(inner) = &setting.inner else { continue };
        let path = if path.is_empty() { setting.key.to_owned() } else { format!("{path}.{}", setting.key) };
        let brackets = if setting.default.is_array() { ["[[", "]]"] } else { ["[", "]"] };
        writeln!(page, "\n## `{}{path}{}`\n\n{}\n", brackets[0], brackets[1], text(setting.doc)).unwrap();
        tables(&path, inner, page);
    }
}

/// A documentation comment in one line, without links to items.
fn text(doc: &str) -> String {
    let line = doc.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let mut text = String::new();
    let mut rest = line.as_str();
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        write!(text, "{before}`{name}`").unwrap();
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    text + rest
}

fn shown(default: &Value) -> String {
    match default {
        Value::Null => "–".to_owned(),
        Value::Array(list) if list.is_empty() => "`[]`".to_owned(),
        other => format!("`{other}`"),
    }
}

#[test]
fn settings_page_is_that_of_the_declarations() {
    let mut page = HEAD.to_owned() + "\n";
    tables("", &RunConfig::default().declared(), &mut page);
    spag_tests::assert_written("docs/SETTINGS.md", &page, "SPAG_WRITE_SETTINGS");
    assert!(page.matches("\n| `").count() > 150, "{page}");
}
