//! Settings of generated answers: what is taken from them, and how that is compared.

use serde::{Deserialize, Serialize};

use crate::config::Listed;

/// `filter`: what is taken from a generated answer. Each filter of a list has scores of its own; the first one's are the main ones.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(from = "OneOrMany", into = "OneOrMany")]
pub struct Filters(pub Vec<FilterConfig>);

#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "a table with `name` and `regex`, `values` or `words`, or a list of such tables")]
enum OneOrMany {
    One(Box<FilterConfig>),
    Many(Vec<FilterConfig>),
}

impl From<OneOrMany> for Filters {
    fn from(filters: OneOrMany) -> Self {
        match filters {
            OneOrMany::One(filter) => Self(vec![*filter]),
            OneOrMany::Many(filters) => Self(filters),
        }
    }
}

impl From<Filters> for OneOrMany {
    fn from(Filters(mut filters): Filters) -> Self {
        match filters.len() {
            1 => Self::One(Box::new(filters.remove(0))),
            _ => Self::Many(filters),
        }
    }
}

/// One filter: what a regular expression finds, which of several expressions finds something, or known words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilterConfig {
    /// Its name in the results.
    pub name: String,
    /// A regular expression. Its first group, or all that it matches, is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Which match is taken: 0 the first, -1 the last.
    pub select: i64,
    /// The answer without a match; `[invalid]` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The texts of the choices (A), (B), …: a list of templates, a template of a list, or one of a text that has them after these
    /// letters. Where `regex` finds nothing, the letter of a choice whose text the answer has is taken, or else a letter after a colon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<Listed>,
    /// Pairs of a regular expression and what is taken if it matches, instead of `regex`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, String)>,
    /// Words, in the order in which the answer has them for the last time, instead of `regex`: a list of templates, or a template of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<Listed>,
    /// Where `regex` finds nothing, the last number in English words is taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub number_words: bool,
    /// Capital letters are the same as small ones, for `choices` and `values`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Punctuation is left out, for `choices` and `values`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_punctuation: bool,
}

impl FilterConfig {
    /// What is taken if nothing is found.
    pub(crate) fn fallback(&self) -> &str {
        self.fallback.as_deref().unwrap_or("[invalid]")
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let ways = [self.regex.is_some(), !self.values.is_empty(), self.words.is_some()];
        if self.name.is_empty() || self.name.contains(',') {
            return Err("a filter needs a name without a comma".into());
        }
        if ways.iter().filter(|way| **way).count() != 1 {
            return Err(format!("the filter `{}` needs one of `regex`, `values` and `words`", self.name));
        }
        if self.regex.is_none() && (self.choices.is_some() || self.number_words) {
            return Err(format!("the filter `{}`: `choices` and `number_words` need `regex`", self.name));
        }
        Ok(())
    }
}

/// `[task.exact_match]`: what is ignored when a generated answer is compared with the expected one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExactMatchConfig {
    /// Both are compared as mathematics: the answer in a text is found and compared as `spag check` does. Nothing else is ignored
    /// then.
    pub math: bool,
    /// Regular expressions whose matches are removed from both.
    pub ignore: Vec<String>,
    /// Capital letters are the same as small ones.
    pub ignore_case: bool,
    /// ASCII punctuation is removed.
    pub ignore_punctuation: bool,
    /// Digits are removed.
    pub ignore_numbers: bool,
}
