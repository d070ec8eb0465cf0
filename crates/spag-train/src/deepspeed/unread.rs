//! Keys of a DeepSpeed file that nothing reads: they have no effect here, or are misspelled.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use spag_io::quote;

use super::error::{LISTED, invalid};
use super::read::Reader;

/// Letters in which a misspelled key may differ from the one that was meant.
const MOST_EDITS: usize = 2;

impl Reader<'_> {
    /// The keys of the file that were not looked up, quoted. A section that is no object and a misspelled key in a section are reported.
    pub(super) fn without_effect(&mut self) -> Vec<String> {
        let mut ignored = Vec::new();
        let mut asked = self.asked.take();
        let sections = asked.iter().flat_map(|key| key.match_indices('.').map(|(end, _)| key[..end].to_owned()));
        asked.extend(sections.collect::<Vec<_>>());
        if let Value::Object(root) = self.root {
            self.walk("", root, &asked, &mut ignored);
        }
        ignored
    }

    fn walk(&mut self, path: &str, object: &Map<String, Value>, asked: &BTreeSet<String>, ignored: &mut Vec<String>) {
        let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        for (name, value) in object {
            let key = join(name);
            let within = format!("{key}.");
            let is_section = || asked.range(within.clone()..).next().is_some_and(|key| key.starts_with(&within));
            // A name with a dot in it is not a path.
            let is_path = !name.contains('.');
            match value {
                Value::Null => {}
                Value::Object(_) if self.type_is_refused(path) => {}
                Value::Object(inner) if is_path && is_section() => self.walk(&key, inner, asked, ignored),
                other if is_path && is_section() => self.problems.push(invalid(&key, "an object", other)),
                _ if is_path && asked.contains(&key) => {}
                _ => {
                    // Searched for those that are listed only: a file may have millions of keys.
                    let is_listed = ignored.len() < LISTED && self.problems.len() < LISTED;
                    let meant = if is_listed { nearest(asked, path, name) } else { None };
                    match meant {
                        Some(meant) if !path.is_empty() => {
                            self.problems.push(format!("`{}` is unknown; did you mean `{meant}`?", quote(&key)));
                        }
                        Some(meant) => ignored.push(format!("`{}` (did you mean `{meant}`?)", quote(&key))),
                        None => ignored.push(format!("`{}`", quote(&key))),
                    }
                }
            }
        }
    }
}

/// The known key that an unknown one was probably meant to be: the only one of its name, or one of its section that is spelled almost
/// the same.
fn nearest<'a>(known: &'a BTreeSet<String>, path: &str, name: &str) -> Option<&'a str> {
    let split = |key: &'a String| (key.as_str(), key.rsplit_once('.').unwrap_or(("", key)));
    let mut same = known.iter().map(split).filter(|(_, (_, other))| *other == name);
    if let (Some((key, _)), None) = (same.next(), same.next()) {
        return Some(key);
    }
    let here = known.iter().map(split).filter(|(_, (section, other))| *section == path && other.len() > MOST_EDITS * 2);
    here.filter(|(_, (_, other))| name.len() <= other.len() + MOST_EDITS)
        .map(|(key, (_, other))| (strsim::osa_distance(name, other), key))
        .filter(|(edits, _)| *edits <= MOST_EDITS)
        .min()
        .map(|(_, key)| key)
}
