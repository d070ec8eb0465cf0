//! Reading of configurations: TOML files that may extend each other, with `--set` overrides on top.
//!
//! Each layer is checked alone, so that an error names its file and line. Then the layers are merged as TOML trees, in
//! which later layers win setting by setting.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::error::{Error, Result};

/// Reads the defaults of `C`, then the files that `file` extends, `file` itself, and `overrides` (each `key.path=value`).
///
/// The value of an override is parsed as TOML; if it is not TOML, it is a string, so `run_dir=runs/b` needs no quotes.
pub(super) fn load_config<C: Serialize + DeserializeOwned + Default>(file: &Path, overrides: &[String]) -> Result<C> {
    let mut table = Table::try_from(C::default())
        .map_err(|error| Error::Malformed { place: "the built-in defaults".to_owned(), message: error.to_string() })?;
    merge(&mut table, read_file::<C>(file, &mut Vec::new())?);
    for text in overrides {
        let tree = parse_override(text)?;
        if tree.contains_key("extends") {
            let message = "`extends` can be set in a configuration file only".to_owned();
            return Err(Error::Malformed { place: format!("--set {text}"), message });
        }
        C::deserialize(tree.clone()).map_err(|error| explain(&error, format!("--set {text}"), None))?;
        merge(&mut table, tree);
    }
    C::deserialize(table).map_err(|error| explain(&error, file.display().to_string(), None))
}

/// Checks that counts are at least 1.
pub(super) fn require_positive(settings: &[(&'static str, usize)]) -> Result<()> {
    match settings.iter().find(|(_, value)| *value == 0) {
        Some((setting, _)) => Err(Error::BadSetting { setting, message: "must be at least 1".to_owned() }),
        None => Ok(()),
    }
}

/// Finds an input file or folder. A relative path is looked up in the current directory, then in the parent of the
/// configuration's folder, so that `configs/tiny.toml` with `data/tiny-llama` works from any directory.
pub(super) fn find_input(setting: &'static str, path: &Path, config_file: &Path) -> Result<PathBuf> {
    let mut tried = vec![path.to_path_buf()];
    if path.is_relative() {
        let beside = config_file.canonicalize().ok().and_then(|file| Some(file.parent()?.parent()?.join(path)));
        tried.extend(beside);
    }
    match tried.iter().find(|path| path.exists()) {
        Some(found) => Ok(found.clone()),
        None => Err(Error::MissingInput { setting, tried }),
    }
}

/// An override as a tree of tables with one leaf.
fn parse_override(text: &str) -> Result<Table> {
    let bad = || Error::Malformed {
        place: format!("--set {text}"),
        message: "an override is written key=value, for instance --set self_play.games=96".to_owned(),
    };
    let (key, value) = text.split_once('=').ok_or_else(bad)?;
    let mut keys = key.split('.').map(str::trim);
    if keys.clone().any(str::is_empty) {
        return Err(bad());
    }
    let first = keys.next().ok_or_else(bad)?;
    let leaf = parse_value(value.trim());
    let value = keys.rev().fold(leaf, |inner, key| Value::Table(Table::from_iter([(key.to_owned(), inner)])));
    Ok(Table::from_iter([(first.to_owned(), value)]))
}

fn parse_value(text: &str) -> Value {
    // A value alone is not a TOML document.
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn read_file<C: DeserializeOwned>(path: &Path, seen: &mut Vec<PathBuf>) -> Result<Table> {
    let canonical = path.canonicalize().map_err(Error::io("read this configuration", path))?;
    if seen.contains(&canonical) {
        return Err(Error::ExtendsItself { path: path.to_path_buf() });
    }
    seen.push(canonical);

    let text = std::fs::read_to_string(path).map_err(Error::io("read this configuration", path))?;
    let place = path.display().to_string();
    let mut table: Table = text.parse().map_err(|error| explain(&error, place.clone(), Some(&text)))?;
    // Deserialised from the text, since the tree has no line numbers.
    toml::from_str::<C>(&text).map_err(|error| explain(&error, place, Some(&text)))?;

    match table.remove("extends") {
        Some(Value::String(parent)) => {
            let folder = path.parent().unwrap_or(Path::new(""));
            let mut below = read_file::<C>(&folder.join(parent), seen)?;
            merge(&mut below, table);
            Ok(below)
        }
        Some(_) => Err(Error::Malformed {
            place: path.display().to_string(),
            message: "`extends` must be the path of another configuration, relative to this one".to_owned(),
        }),
        None => Ok(table),
    }
}

fn merge(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

/// Turns a TOML error into one with the place and, for an unknown key, the most similar known key.
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

/// Parses serde's message: "unknown field `a`, expected one of `b`, `c`" (or "expected `b`", or "there are no fields").
fn unknown_field(message: &str) -> Option<(String, Vec<String>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some((key.to_owned(), known))
}
