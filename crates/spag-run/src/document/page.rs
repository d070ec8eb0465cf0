//! A document as one file: its data, and the modules of the live pages, which draw it. It loads nothing.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;
use sha2::{Digest, Sha256};
use spag_io::escape_table;

use super::Document;

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        [$((concat!("/page/", $name), include_str!(concat!("../../assets/", $name)))),*]
    };
}

/// The style that documents share with the live pages: its path in a server and its text.
pub const STYLE: (&str, &str) = assets!["shared.css"][0];

/// The modules that draw documents, in files and in the live pages: their paths in a server and their texts, each after those that it
/// imports from.
pub const MODULES: [(&str, &str); 8] =
    assets!["dom.js", "numbers.js", "plane.js", "radar.js", "charts.js", "table.js", "talk.js", "report.js"];

/// Draws the document of a file.
const OF_FILE: &str = include_str!("../../assets/file.js");

/// What the data begin with in the file.
const DATA: &str = r#"<script type="application/json" id="document">"#;
/// What the data end with. They have no `<` of their own.
const END: &str = "</script>";

impl Document {
    /// The document as a page in one file. Its texts are data, which cannot end a script, and the policy of the page allows its own
    /// script alone. Characters that are invisible or change the direction of writing become visible, as in texts.
    pub fn html(&self) -> String {
        let mut data = serde_json::to_value(self).unwrap_or_default();
        show_invisible(&mut data);
        let data = data.to_string().replace('<', "\\u003c");
        let (script, without_script) = (script(), self.without_script);
        let style = STYLE.1;
        let [script_digest, style_digest] = [&*script, style].map(|text| BASE64_STANDARD.encode(Sha256::digest(text)));
        format!(
            r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-{script_digest}'; style-src 'sha256-{style_digest}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>SPAG</title>
<style>{style}</style>
</head>
<body class="wide">
<main id="main"><noscript><p>This page needs JavaScript. {without_script}</p></noscript></main>
{DATA}{data}{END}
<script type="module">{script}</script>
</body>
</html>
"#
        )
    }

    /// The document in a page of [`Document::html`]; `None` if the text is no such page.
    pub fn of_html(page: &str) -> Option<Self> {
        let (_, rest) = page.split_once(DATA)?;
        let (data, _) = rest.split_once(END)?;
        serde_json::from_str(data).ok()
    }
}

/// All modules as one: a file cannot import others.
fn script() -> String {
    let modules = MODULES.into_iter().map(|(_, text)| text).chain([OF_FILE]);
    let lines = modules.flat_map(str::lines).filter(|line| !line.starts_with("import "));
    lines.flat_map(|line| [line.strip_prefix("export ").unwrap_or(line), "\n"]).collect()
}

/// Escapes what is invisible or reorders text, except newlines and tabs.
fn show_invisible(value: &mut Value) {
    match value {
        Value::String(text) => {
            let parts: Vec<_> = text.split('\t').map(escape_table).collect();
            *text = parts.join("\t");
        }
        Value::Array(all) => all.iter_mut().for_each(show_invisible),
        Value::Object(map) => map.values_mut().for_each(show_invisible),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::document::{Chart, Part, Section, Series, Table};

    fn hostile() -> Document {
        let text = "</script><script>alert(1)</script><!--\u{202e}\u{7}\t\u{2028}";
        let table = Table::new(text, [text], vec![vec![text.to_owned()]]);
        let series = Series::new(text, [[1.0, 2.0], [2.0, f64::NAN]]);
        let chart = Chart { title: text.to_owned(), series: vec![series], ..Chart::default() };
        let parts = vec![Part::Text(text.to_owned()), Part::Table(table), Part::Charts(vec![chart])];
        let sections = vec![Section { heading: text.to_owned(), parts }];
        Document { title: text.to_owned(), notes: vec![text.to_owned()], sections, ..Document::default() }
    }

    #[test]
    fn no_text_ends_a_script_and_invisible_characters_are_shown() {
        let page = hostile().html();
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2), "{page}");
        assert!(!page.contains("<!--") && page.contains(r"\\u{202e}\\u{7}\t\\u{2028}"), "{page}");
        let read = Document::of_html(&page).unwrap();
        assert_eq!(read.title, "</script><script>alert(1)</script><!--\\u{202e}\\u{7}\t\\u{2028}");
        assert_eq!((read.sections.len(), Document::of_html(&read.html())), (1, Some(read.clone())));
        for text in ["", "<title>of another program</title>", DATA, &format!("{DATA}[]{END}")] {
            assert_eq!(Document::of_html(text), None, "{text}");
        }
    }

    #[test]
    fn page_loads_nothing() {
        let page = hostile().html();
        for outside in ["https:", "<link", "@import", "url(", "src=", "<img", "innerHTML", "eval("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.replace("http://www.w3.org/2000/svg", "").matches("http:").count(), 0);
    }

    #[test]
    fn modules_are_one_script_without_imports_and_with_names_of_their_own() {
        let script = script();
        for line in script.lines() {
            assert!(!line.starts_with("import") && !line.starts_with("export"), "{line}");
        }
        let named = |line: &str| {
            let (kind, rest) = line.split_once(' ')?;
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
            ["function", "const", "let", "class"].contains(&kind).then(|| name.to_owned())
        };
        let names: Vec<String> = script.lines().filter_map(named).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert!(names.len() > 30 && distinct.len() == names.len(), "{names:?}");
    }
}
