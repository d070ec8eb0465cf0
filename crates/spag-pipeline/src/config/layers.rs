//! What was typed: TOML files that may extend each other, and `--set` overrides on top.
//!
//! Each layer is checked alone, so that an error can name its file and line; then they are laid over each other as TOML
//! trees, the later one winning setting by setting.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::error::{Error, Result};

/// A configuration as typed: sparse, merged from its files and overrides, not yet checked as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// Only what was typed; settings left out are absent.
    pub(crate) table: Table,
    /// The file that was named by the user.
    pub(crate) file: PathBuf,
}

impl Layers {
    /// Reads `file` and what it extends. `S` is the type of one file, which knows the keys, `extends` among them.
    pub(crate) fn read<S: DeserializeOwned>(file: &Path) -> Result<Self> {
        let mut seen = Vec::new();
        let table = read_file::<S>(file, &mut seen)?;
        Ok(Self { table, file: file.to_path_buf() })
    }

    /// Lays one `key.path=value` over the rest. The value is read as TOML; what is no TOML is a string, so that
    /// `--set run_dir=runs/b` needs no quotes.
    pub(crate) fn set<S: DeserializeOwned>(&mut self, text: &str) -> Result<()> {
        let bad = || Error::BadOverride { text: text.to_owned() };
        let (key, value) = text.split_once('=').ok_or_else(bad)?;
        let keys: Vec<&str> = key.split('.').map(str::trim).collect();
        if keys.iter().any(|key| key.is_empty()) {
            return Err(bad());
        }
        let value = parse_value(value.trim());
        let tree =
            keys.iter().rev().fold(value, |inner, key| Value::Table(Table::from_iter([((*key).to_owned(), inner)])));
        let Value::Table(tree) = tree else {
            return Err(bad());
        };
        let place = format!("--set {text}");
        S::deserialize(tree.clone()).map_err(|error| explain(&error, place, None))?;
        lay_over(&mut self.table, tree);
        Ok(())
    }

    /// Fills what was not typed from `defaults` and reads the whole as settings.
    pub(crate) fn settle<S: DeserializeOwned>(&self, defaults: Table) -> Result<S> {
        let mut table = defaults;
        lay_over(&mut table, self.table.clone());
        S::deserialize(table).map_err(|error| explain(&error, self.file.display().to_string(), None))
    }
}

fn parse_value(text: &str) -> Value {
    // A lone value is no TOML document, so it is given a key.
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn read_file<S: DeserializeOwned>(path: &Path, seen: &mut Vec<PathBuf>) -> Result<Table> {
    let canonical = path.canonicalize().map_err(Error::io("read this configuration", path))?;
    if seen.contains(&canonical) {
        return Err(Error::ExtendsItself { path: path.to_path_buf() });
    }
    seen.push(canonical);

    let text = std::fs::read_to_string(path).map_err(Error::io("read this configuration", path))?;
    let place = path.display().to_string();
    let mut table: Table = text.parse().map_err(|error| explain(&error, place.clone(), Some(&text)))?;
    // Read from the text and not from the tree, since only the text knows its lines.
    toml::from_str::<S>(&text).map_err(|error| explain(&error, place, Some(&text)))?;

    match table.remove("extends") {
        Some(Value::String(parent)) => {
            let folder = path.parent().unwrap_or(Path::new(""));
            let mut below = read_file::<S>(&folder.join(parent), seen)?;
            lay_over(&mut below, table);
            Ok(below)
        }
        Some(_) => Err(Error::Malformed {
            place: path.display().to_string(),
            message: "`extends` must be the path of another configuration, relative to this one".to_owned(),
        }),
        None => Ok(table),
    }
}

fn lay_over(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => lay_over(old, new),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

/// Turns a TOML error into one that says where and, for an unknown key, which known one was probably meant.
fn explain(error: &toml::de::Error, place: String, text: Option<&str>) -> Error {
    let line = match (error.span(), text) {
        (Some(span), Some(text)) => text.get(..span.start).map(|before| before.matches('\n').count() + 1),
        _ => None,
    };
    let place = match line {
        Some(line) => format!("{place}, line {line}"),
        None => place,
    };
    match unknown_field(error.message()) {
        Some((key, known)) => {
            let nearest = spag_io::nearest_name(&key, known.iter().map(String::as_str)).map(str::to_owned);
            Error::UnknownSetting { nearest, place, key, known }
        }
        None => {
            let quoted = line
                .and_then(|line| text?.lines().nth(line.checked_sub(1)?))
                .map(|line| format!(" in `{}`", line.trim()));
            Error::Malformed { place, message: format!("{}{}", error.message(), quoted.unwrap_or_default()) }
        }
    }
}

/// serde's wording: "unknown field `a`, expected one of `b`, `c`" (or "expected `b`", or "there are no fields").
fn unknown_field(message: &str) -> Option<(String, Vec<String>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some((key.to_owned(), known))
}
