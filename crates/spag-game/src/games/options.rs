//! Options of games: typed values of a JSON object, with ranges.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use spag_io::{nearest_name, quote};

use crate::error::{Error, Result};

/// Reads the options of a game. Every option is read once, and [`Options::finish`] refuses all others.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    game: &'static str,
    given: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    pub(crate) fn new(game: &'static str, given: &'a Map<String, Value>) -> Self {
        Self { game, given, known: Vec::new() }
    }

    /// All options, also unknown ones.
    pub(crate) fn given(&self) -> &'a Map<String, Value> {
        self.given
    }

    fn take(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        self.given.get(name)
    }

    /// The error of an option.
    pub(crate) fn error(&self, option: &str, reason: String) -> Error {
        Error::GameOption { game: self.game, option: option.to_owned(), reason }
    }

    /// A whole number within a range.
    pub(crate) fn integer(&mut self, name: &'static str, range: RangeInclusive<u64>, default: u64) -> Result<u64> {
        let Some(value) = self.take(name) else { return Ok(default) };
        value
            .as_u64()
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.error(name, format!("needs a whole number from {} to {}", range.start(), range.end())))
    }

    /// True or false.
    pub(crate) fn truth(&mut self, name: &'static str, default: bool) -> Result<bool> {
        let Some(value) = self.take(name) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.error(name, "needs true or false".to_owned()))
    }

    /// One of a few names, of which the first is the default.
    pub(crate) fn name(&mut self, name: &'static str, names: &[&'static str]) -> Result<&'static str> {
        let Some(value) = self.take(name) else { return Ok(names[0]) };
        let found = names.iter().copied().find(|known| value.as_str() == Some(known));
        found.ok_or_else(|| self.error(name, format!("needs one of \"{}\"", names.join("\", \""))))
    }

    /// A list of 1 to `most` whole numbers within a range.
    pub(crate) fn integers(
        &mut self,
        name: &'static str,
        most: usize,
        range: RangeInclusive<u64>,
        default: &[u64],
    ) -> Result<Vec<u64>> {
        let Some(value) = self.take(name) else { return Ok(default.to_vec()) };
        let one = |value: &Value| value.as_u64().filter(|number| range.contains(number));
        let numbers = value.as_array().filter(|list| (1..=most).contains(&list.len()));
        numbers.and_then(|list| list.iter().map(one).collect()).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            self.error(name, format!("needs a list of 1 to {most} whole numbers from {low} to {high}"))
        })
    }

    /// Refuses options that the game does not have.
    pub(crate) fn finish(self) -> Result<()> {
        let Some(unknown) = self.given.keys().find(|name| !self.known.contains(&name.as_str())) else { return Ok(()) };
        let meant = match nearest_name(unknown, self.known.iter().copied()) {
            Some(nearest) => format!("; did you mean \"{nearest}\"?"),
            None => format!("; there are \"{}\"", self.known.join("\", \"")),
        };
        Err(self.error(&quote(unknown), format!("is unknown{meant}")))
    }
}
