//! Reading of configurations: TOML files that may extend each other, with `--set` overrides on top.
//!
//! The layers are merged as TOML trees, in which later layers win setting by setting, and read once. An error names the
//! highest layer that has the setting, with its line if it is a file.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use spag_io::{quote, read_text};
use toml::{Table, Value};

use crate::error::{Error, Result};

/// Bytes of a configuration file.
const MAX_BYTES: u64 = 1 << 20;
/// Files of which each extends the next.
const MAX_FILES: usize = 32;
/// Keys of an override, from the outermost table to the setting.
const MAX_KEYS: usize = 16;

/// A file or an override.
struct Layer {
    /// The file, or the `--set` argument.
    place: String,
    tree: Table,
    /// The text of a file.
    text: Option<String>,
}

/// What `--set` says.
enum Override {
    /// A setting has a value.
    Set(Layer),
    /// The setting that the keys lead to is removed from the layers below, and has its default.
    Unset { place: String, keys: Vec<String> },
}

/// The value of an override that removes a setting.
const UNSET: &str = "unset";

impl Layer {
    /// Whether it sets what the keys lead to.
    fn sets(&self, keys: &[String]) -> bool {
        let mut tables = Some(&self.tree);
        keys.iter().all(|key| match tables.and_then(|table| table.get(key)) {
            Some(value) => {
                tables = value.as_table();
                true
            }
            None => false,
        })
    }
}

/// A configuration and the layers that it was merged from.
pub(super) struct Layers<C> {
    /// All layers merged.
    pub(super) config: C,
    /// From the lowest to the highest.
    layers: Vec<Layer>,
}

/// Reads the defaults of `C`, then the files that `file` extends, `file` itself, and `overrides` (each `key.path=value`).
///
/// The value of an override is parsed as TOML; if it is not TOML, it is a string, so `run_dir=runs/b` needs no quotes. `unset`
/// removes a setting, or a table with all of its settings, from the files and the overrides before it.
pub(super) fn load_config<C>(file: &Path, overrides: &[String]) -> Result<Layers<C>>
where
    C: Serialize + DeserializeOwned + Default,
{
    let mut table = Table::try_from(C::default())
        .map_err(|error| Error::Malformed { place: "the built-in defaults".to_owned(), message: error.to_string() })?;
    let mut layers = read_files(file)?;
    if layers.iter().all(|layer| has_no_values(&layer.tree)) {
        let message = "this configuration has no settings; configs/tiny.toml is one to start from".to_owned();
        return Err(Error::Malformed { place: file.display().to_string(), message });
    }
    for text in overrides {
        match parse_override(text)? {
            Override::Set(layer) => layers.push(layer),
            Override::Unset { place, keys } => {
                unset::<C>(&mut layers, &keys).map_err(|error| explain(&error, place, None))?;
            }
        }
    }
    for layer in &layers {
        merge(&mut table, &layer.tree);
    }
    match serde_path_to_error::deserialize(table) {
        Ok(config) => Ok(Layers { config, layers }),
        Err(error) => Err(explain_layers::<C>(&error, file, &layers)),
    }
}

impl<C> Layers<C> {
    /// Whether a layer sets a key of the outermost table.
    pub(super) fn sets(&self, key: &str) -> bool {
        self.layers.iter().any(|layer| layer.tree.contains_key(key))
    }

    /// Checks values that depend on others. An error names the highest layer that has the value.
    pub(super) fn check(&self, check: impl Fn(&C) -> Result<()>) -> Result<()> {
        check(&self.config).map_err(|error| {
            let Error::BadSetting { setting, .. } = error else { return error };
            let keys: Vec<String> = setting.split('.').map(str::to_owned).collect();
            match self.layers.iter().rev().find(|layer| layer.sets(&keys)) {
                Some(layer) => Error::Malformed { place: layer.place.clone(), message: error.to_string() },
                None => error,
            }
        })
    }
}

/// Reads a TOML file. An error names the file and, if known, the line.
///
/// # Errors
/// The file cannot be read or is larger than a configuration can be, is not TOML, has an unknown key or a wrong type.
pub(crate) fn read_toml<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T> {
    let path = path.as_ref();
    let text = read_text(path, MAX_BYTES)?;
    let place = path.display().to_string();
    let document = toml::Deserializer::parse(&text).map_err(|error| explain(&error, place.clone(), Some(&text)))?;
    serde_path_to_error::deserialize(document).map_err(|error| match out_of_range(error.inner()) {
        Some(value) => {
            Error::Malformed { message: format!("{} = {value}: {}", error.path(), error.inner().message()), place }
        }
        None => explain(error.inner(), place, Some(&text)),
    })
}

/// The number that is beyond its limits, if that is the error.
fn out_of_range(error: &toml::de::Error) -> Option<&str> {
    error.message().strip_prefix("expected a ")?.rsplit_once(", not ").map(|(_, value)| value)
}

/// An override; a value is a tree of tables with one leaf.
fn parse_override(text: &str) -> Result<Override> {
    let place = format!("--set {}", quote(text));
    let bad = |message: String| Error::Malformed { place: place.clone(), message };
    let syntax = || bad("an override is written key=value, for instance --set self_play.games=96".to_owned());
    let (key, value) = text.split_once('=').ok_or_else(syntax)?;
    // Deeper trees would exhaust the stack when they are merged or dropped.
    let keys: Vec<&str> = key.splitn(MAX_KEYS + 1, '.').map(str::trim).collect();
    if keys.len() > MAX_KEYS {
        return Err(bad(format!("no setting has more than {MAX_KEYS} keys")));
    }
    if keys.iter().any(|key| key.is_empty()) {
        return Err(syntax());
    }
    if keys[0] == "extends" {
        return Err(bad("`extends` can be set in a configuration file only".to_owned()));
    }
    if value.trim() == UNSET {
        return Ok(Override::Unset { keys: keys.into_iter().map(str::to_owned).collect(), place });
    }
    let leaf = parse_value(value.trim());
    let tree =
        keys.into_iter().rev().fold(leaf, |inner, key| Value::Table(Table::from_iter([(key.to_owned(), inner)])));
    match tree {
        Value::Table(tree) => Ok(Override::Set(Layer { place, tree, text: None })),
        _ => Err(syntax()),
    }
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

/// Reads `path` and the files that it extends, the lowest first.
fn read_files(path: &Path) -> Result<Vec<Layer>> {
    let mut files = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut next = Some(path.to_path_buf());
    while let Some(path) = next {
        let canonical = path.canonicalize().map_err(Error::io("read this configuration", &path))?;
        if seen.contains(&canonical) {
            return Err(Error::ExtendsItself { path });
        }
        if seen.len() == MAX_FILES {
            let message = format!("more than {MAX_FILES} configurations extend each other; join some of them");
            return Err(Error::Malformed { place: path.display().to_string(), message });
        }
        seen.push(canonical);

        let text = read_text(&path, MAX_BYTES)?;
        let place = path.display().to_string();
        let mut tree: Table = text.parse().map_err(|error| explain(&error, place.clone(), Some(&text)))?;
        next = match tree.remove("extends") {
            Some(Value::String(parent)) => Some(path.parent().unwrap_or(Path::new("")).join(parent)),
            Some(_) => {
                let message = "`extends` must be the path of another configuration, relative to this one".to_owned();
                return Err(Error::Malformed { place, message });
            }
            None => None,
        };
        files.push(Layer { place, tree, text: Some(text) });
    }
    files.reverse();
    Ok(files)
}

/// Removes a setting from all layers. One that no layer has is an error if there is no such key.
fn unset<C: DeserializeOwned>(layers: &mut [Layer], keys: &[String]) -> Result<(), toml::de::Error> {
    let Some((last, path)) = keys.split_last() else { return Ok(()) };
    let mut removed = false;
    for layer in layers {
        let within = path.iter().try_fold(&mut layer.tree, |table, key| table.get_mut(key)?.as_table_mut());
        removed |= within.is_some_and(|table| table.remove(last).is_some());
    }
    if removed {
        return Ok(());
    }
    // Reading the key alone tells whether there is one. The value, which fits none, is not the point.
    let table = |inner, key: &String| Value::Table(Table::from_iter([(key.clone(), inner)]));
    match C::deserialize(keys.iter().rev().fold(Value::Float(f64::NAN), table)) {
        Err(error) if unknown_field(error.message()).is_some() => Err(error),
        _ => Ok(()),
    }
}

fn has_no_values(table: &Table) -> bool {
    table.values().all(|value| value.as_table().is_some_and(has_no_values))
}

fn merge(below: &mut Table, above: &Table) {
    for (key, value) in above {
        match (below.get_mut(key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            _ => {
                below.insert(key.clone(), value.clone());
            }
        }
    }
}

/// An error of the merged layers as one of the layer that has the setting.
fn explain_layers<C: DeserializeOwned>(
    error: &serde_path_to_error::Error<toml::de::Error>,
    file: &Path,
    layers: &[Layer],
) -> Error {
    let key = |part: &Segment| if let Segment::Map { key } = part { Some(key.clone()) } else { None };
    let keys: Vec<String> = error.path().iter().map_while(key).collect();
    let error = error.inner();
    let Some(layer) = layers.iter().rev().find(|layer| layer.sets(&keys)) else {
        return explain(error, file.display().to_string(), None);
    };
    // A number out of its range needs no line: the setting names it.
    if out_of_range(error).is_some() {
        let message = format!("setting `{}`: {}", keys.join("."), error.message());
        return Error::Malformed { place: layer.place.clone(), message };
    }
    // The merged tree has no lines.
    let of_text = layer.text.as_deref().and_then(|text| Some((toml::from_str::<C>(text).err()?, text)));
    match of_text.filter(|(own, _)| own.message() == error.message()) {
        Some((own, text)) => explain(&own, layer.place.clone(), Some(text)),
        None => explain(error, layer.place.clone(), None),
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
                .map(|line| format!(" in `{}`", quote(line.trim())));
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
