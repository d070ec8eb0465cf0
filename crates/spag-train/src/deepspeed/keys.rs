//! Whether a file's keys are known, and whether they ask for what cannot be done.

use serde_json::{Map, Value};

use super::{
    Problem,
    reader::shown,
    table::{SECTIONS, Section},
};

/// All problems with the keys of `root` that do not depend on other keys.
pub(super) fn check(root: &Map<String, Value>) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(top) = section("") {
        walk(top, root, &mut problems);
    }
    problems
}

fn walk(section: &Section, object: &Map<String, Value>, problems: &mut Vec<Problem>) {
    let found_before = problems.len();
    let mut inner = Vec::new();
    for (name, value) in object {
        let name = name.as_str();
        if section.read.contains(&name) || section.idle.contains(&name) {
            continue;
        }
        let key = join(section.path, name);
        if let Some(refusal) = section.refused.iter().find(|refusal| refusal.key == name) {
            if (refusal.asks)(value) {
                problems.push(Problem::Unsupported { key, value: shown(value), advice: refusal.advice });
            }
        } else if let Some(below) = below(section, name) {
            match value {
                Value::Object(object) => inner.push((below, object)),
                Value::Null => {}
                other => problems.push(Problem::Invalid { key, expected: "an object", value: shown(other) }),
            }
        } else {
            problems.push(Problem::Unknown { nearest: nearest(section, name), key });
        }
    }
    // An optimizer or scheduler that is refused has parameters of its own, which need no second complaint.
    let type_key = join(section.path, "type");
    let refused = |problem: &Problem| matches!(problem, Problem::Unsupported { key, .. } if *key == type_key);
    if !problems[found_before..].iter().any(refused) {
        for (below, object) in inner {
            walk(below, object, problems);
        }
    }
}

/// The most similar name of the section, or the one place where the name itself is known.
fn nearest(here: &Section, name: &str) -> Option<String> {
    let similar = spag_io::nearest_name(name, names(here)).map(|known| join(here.path, known));
    let mut elsewhere = SECTIONS
        .iter()
        .filter(|section| names(section).any(|known| known == name))
        .map(|section| join(section.path, name));
    match (elsewhere.next(), elsewhere.next()) {
        (Some(only), None) => Some(only),
        _ => similar,
    }
}

/// All names that a section knows, the sections in it included.
fn names(section: &Section) -> impl Iterator<Item = &'static str> {
    let path = section.path;
    let below = SECTIONS.iter().filter_map(move |other| match (path, other.path.rsplit_once('.')) {
        (_, Some((parent, name))) => (parent == path).then_some(name),
        ("", None) => (!other.path.is_empty()).then_some(other.path),
        _ => None,
    });
    let refused = section.refused.iter().map(|refusal| refusal.key);
    section.read.iter().chain(section.idle).copied().chain(refused).chain(below)
}

fn section(path: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.path == path)
}

/// The section `name` of a section. A name with a dot in it is no path: DeepSpeed would look it up as it stands.
fn below(here: &Section, name: &str) -> Option<&'static Section> {
    if name.is_empty() || name.contains('.') { None } else { section(&join(here.path, name)) }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
