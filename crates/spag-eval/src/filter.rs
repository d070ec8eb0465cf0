//! What a filter takes from a generated answer.

use std::collections::HashSet;

use fancy_regex::Regex;
use spag_io::quote;

use crate::answer_config::FilterConfig;
use crate::config::Listed;
use crate::metric::is_space;
use crate::number_words;
use crate::template::{self, Fields};

/// Letters of choices.
const LETTERS: std::ops::RangeInclusive<char> = 'A'..='Z';

/// A filter with its regular expressions.
#[derive(Debug)]
pub(crate) struct Filter {
    config: FilterConfig,
    /// `regex`, or one that matches where any of `values` does.
    first: Option<Regex>,
    values: Vec<(Regex, String)>,
    /// Matches what `ignore_punctuation` leaves out.
    punctuation: Option<Regex>,
}

/// The texts of a row that a filter looks for.
pub(crate) type Texts = Vec<String>;

/// Compiles a regular expression; the error names it.
pub(crate) fn compile(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("the regular expression `{}`: {}", quote(text), quote(&error.to_string())))
}

impl Filter {
    /// The error says what is wrong with which expression.
    pub(crate) fn new(config: &FilterConfig) -> Result<Self, String> {
        config.check()?;
        let any = config.values.iter().map(|(regex, _)| regex.as_str()).collect::<Vec<_>>().join("|");
        let first = config.regex.as_deref().or((!any.is_empty()).then_some(&*any));
        let values = config.values.iter().map(|(regex, value)| Ok((compile(regex)?, value.clone())));
        Ok(Self {
            first: first.map(compile).transpose()?,
            values: values.collect::<Result<_, String>>()?,
            punctuation: config.ignore_punctuation.then(|| compile(r"\p{P}")).transpose()?,
            config: config.clone(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// The choices or words of a row; the error says which template fails.
    pub(crate) fn texts(&self, fields: &Fields) -> Result<Texts, String> {
        let FilterConfig { choices, words, .. } = &self.config;
        let Some(listed) = choices.as_ref().or(words.as_ref()) else { return Ok(Texts::new()) };
        let wrong = |why| format!("filter `{}`: {why}", quote(self.name()));
        let inside = match choices {
            Some(Listed::One(template)) => template::value(template, fields).map_err(wrong)?.as_str().map(choices_in),
            _ => None,
        };
        let texts = inside.map_or_else(|| template::list(listed, fields), Ok).map_err(wrong)?;
        if choices.is_some() && texts.len() > LETTERS.count() {
            return Err(format!("filter `{}`: {} choices, more than letters", quote(self.name()), texts.len()));
        }
        Ok(texts)
    }

    /// What is taken from an answer to a row with these texts. An expression that takes too long finds nothing.
    pub(crate) fn read(&self, answer: &str, texts: &[String]) -> String {
        let config = &self.config;
        let found = if config.words.is_some() {
            return last_words(answer, texts);
        } else if config.values.is_empty() {
            let found = self.first.as_ref().and_then(|regex| self.find(regex, answer));
            // As lm-evaluation-harness: an empty match is one, unless there is something else to look for.
            let looks_on = config.choices.is_some() || config.number_words;
            found.filter(|found| !looks_on || !found.is_empty()).or_else(|| match &config.choices {
                Some(_) => self.choice(answer, texts),
                None if config.number_words => number_words::last(answer).map(|number| number.to_string()),
                None => None,
            })
        } else {
            let all = self.first.as_ref().and_then(|regex| self.find(regex, &self.seen(answer)));
            all.and_then(|all| {
                let all = self.seen(&all);
                let found =
                    self.values.iter().find(|(regex, _)| self.find(regex, &all).is_some_and(|at| !at.is_empty()));
                found.map(|(_, value)| value.clone())
            })
        };
        found.unwrap_or_else(|| config.fallback().to_owned())
    }

    /// The selected match. As Python's findall: of several groups the first that is not empty, of one group that one.
    fn find(&self, regex: &Regex, text: &str) -> Option<String> {
        let matches = regex.captures_iter(text).map_while(Result::ok).map(|found| {
            let mut groups = (1..found.len()).map(|group| found.get(group).map_or("", |group| group.as_str()));
            match found.len() {
                1 => found.get(0).map_or("", |all| all.as_str()).to_owned(),
                2 => groups.next().unwrap_or("").to_owned(),
                _ => groups.find(|group| !group.is_empty()).unwrap_or(self.config.fallback()).to_owned(),
            }
        });
        let found = match usize::try_from(self.config.select) {
            Ok(from_start) => matches.into_iter().nth(from_start),
            Err(_) => {
                let matches: Vec<String> = matches.collect();
                let back = usize::try_from(self.config.select.unsigned_abs()).unwrap_or(usize::MAX);
                matches.len().checked_sub(back).map(|at| matches[at].clone())
            }
        };
        found.map(|found| found.trim_matches(is_space).to_owned())
    }

    /// A text without what is ignored.
    fn seen(&self, text: &str) -> String {
        let text = if self.config.ignore_case { text.to_lowercase() } else { text.to_owned() };
        match &self.punctuation {
            Some(punctuation) => punctuation.replace_all(&text, "").into_owned(),
            None => text,
        }
    }

    /// The letter of the choice that an answer has, or names after a colon.
    fn choice(&self, answer: &str, texts: &[String]) -> Option<String> {
        let letter = |at: usize| LETTERS.clone().nth(at).map(|letter| format!("({letter})"));
        let texts: Vec<String> = texts.iter().map(|text| self.seen(text.trim_matches(is_space))).collect();
        // The longest first, so that a choice that begins another one does not hide it.
        let mut alternatives: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        alternatives.sort_by_key(|text| std::cmp::Reverse(text.chars().count()));
        let pattern = alternatives.iter().map(|text| fancy_regex::escape(text)).collect::<Vec<_>>().join("|");
        let by_text = || {
            let found = self.find(&Regex::new(&pattern).ok()?, &self.seen(answer))?;
            // Of equal choices the last one, and a text that is cut at its ends stays as it is.
            texts
                .iter()
                .rposition(|text| *text == found)
                .map_or(Some(found.clone()), letter)
                .filter(|found| !found.is_empty())
        };
        let by_letter = || {
            let last = LETTERS.clone().nth(texts.len().checked_sub(1)?)?;
            let found = self.find(&Regex::new(&format!(r":\s*([A-{last}])")).ok()?, answer)?;
            Some(format!("({found})"))
        };
        (!pattern.is_empty()).then(by_text).flatten().or_else(by_letter)
    }
}

/// What follows (A), (B), … in a text, up to the end of the line or the next bracket.
fn choices_in(text: &str) -> Vec<String> {
    let Ok(regex) = Regex::new(r"\([A-Z]\)([^\n^(]*)") else { return Vec::new() };
    let found = regex.captures_iter(text).map_while(Result::ok);
    found.filter_map(|found| found.get(1)).map(|choice| choice.as_str().to_owned()).collect()
}

/// The words that an answer has, each at its last place.
fn last_words(answer: &str, words: &[String]) -> String {
    let pattern = words.iter().map(|word| format!(r"\b{}\b", fancy_regex::escape(word))).collect::<Vec<_>>().join("|");
    let Ok(regex) = Regex::new(&pattern) else { return String::new() };
    let found: Vec<&str> = regex.find_iter(answer).map_while(Result::ok).map(|found| found.as_str()).collect();
    let mut seen = HashSet::new();
    let mut last: Vec<&str> = found.into_iter().rev().filter(|word| !word.is_empty() && seen.insert(*word)).collect();
    last.reverse();
    last.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(filter: &str, texts: &[&str], answer: &str) -> String {
        let config: FilterConfig = toml::from_str(&format!("name = 'f'\n{filter}")).unwrap();
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Filter::new(&config).unwrap().read(answer, &texts)
    }

    #[test]
    fn matches_are_those_of_python() {
        assert_eq!(read(r"regex = '(?<=the answer is )(.*)(?=\.)'", &[], "so the answer is  Yes. Q."), "Yes. Q");
        assert_eq!(read(r"regex = '\b(True|False)\b'", &[], "not True but False"), "True");
        assert_eq!(read("regex = '\\b(True|False)\\b'\nselect = -1", &[], "not True but False"), "False");
        assert_eq!(read("regex = '(a)|(b)'\nselect = 1", &[], "a b"), "b");
        assert_eq!(read("regex = '\\d+'\nfallback = 'none'", &[], "no number"), "none");
        assert_eq!(read("regex = '\\d+'\nselect = -3", &[], "1 2"), "[invalid]");
        // An expression that would take for ever finds nothing.
        assert_eq!(read(r"regex = '^(a+)+\1b$'", &[], &"a".repeat(60)), "[invalid]");
    }

    #[test]
    fn choices_are_found_by_letter_by_text_and_after_a_colon() {
        let letters =
            "regex = '(\\([A-Z]\\))'\nselect = -1\nchoices = ['x']\nignore_case = true\nignore_punctuation = true";
        let of = |answer| read(letters, &["Guilty", "Guilty of Romance", "Not at all!"], answer);
        assert_eq!(of("I think (A), no, (B)."), "(B)");
        assert_eq!(of("It must be guilty of romance"), "(B)");
        assert_eq!(of("it is NOT, at all"), "(C)");
        assert_eq!(of("Answer: A"), "(A)");
        assert_eq!(of("Answer: D"), "[invalid]");
        assert_eq!(choices_in("Which?\n(A) one (1)\n(B) two\n"), [" one ", " two"]);
    }

    #[test]
    fn values_and_words_are_found() {
        let yes = "values = [['\\b(no|not plausible)\\b', 'no'], ['\\b(yes|plausible)\\b', 'yes']]\nselect = -1\nignore_case = true";
        assert_eq!(read(yes, &[], "Yes? It is NOT plausible"), "no");
        assert_eq!(read(yes, &[], "That is plausible."), "yes");
        assert_eq!(read(yes, &[], "Who knows"), "[invalid]");
        let words = ["pear", "fig", "apple"];
        assert_eq!(read("words = 'w'", &words, "fig pear apple. Sorted: apple fig pear"), "apple fig pear");
        assert_eq!(read("words = 'w'", &words, "figs"), "");
        assert_eq!(
            read("regex = '([-0-9]+)'\nselect = -1\nnumber_words = true", &[], "So there are twenty two."),
            "22"
        );
        assert_eq!(read("regex = '([-0-9]+)'\nselect = -1\nnumber_words = true", &[], "Two and 7 are 9."), "9");
    }

    /// The filters of configs/tasks/reasoning.toml over made-up answers, and what lm-evaluation-harness 0.4.13 takes from them: written by
    /// `scripts/reasoning-tasks.py record`.
    #[test]
    fn answers_are_taken_as_by_lm_evaluation_harness() {
        #[derive(serde::Deserialize)]
        struct Case {
            filter: FilterConfig,
            fields: Fields,
            answer: String,
            taken: String,
        }
        let cases: Vec<Case> = serde_json::from_str(include_str!("../tests/data/filters.json")).unwrap();
        for Case { filter, fields, answer, taken } in &cases {
            let compiled = Filter::new(filter).unwrap();
            let texts = compiled.texts(fields).unwrap();
            assert_eq!(compiled.read(answer, &texts), *taken, "{answer:?} by {filter:?}");
        }
        let found = cases.iter().filter(|case| case.taken != "[invalid]").count();
        assert!(cases.len() > 150 && found > 40, "{found} of {}", cases.len());
    }

    #[test]
    fn filters_need_one_way_to_find_something() {
        for (text, said) in [
            ("", "needs one of"),
            ("regex = 'a'\nwords = 'w'", "needs one of"),
            ("values = [['a', 'b']]\nnumber_words = true", "need `regex`"),
            ("regex = '('", "regular expression `(`"),
        ] {
            let config: FilterConfig = toml::from_str(&format!("name = 'f'\n{text}")).unwrap();
            assert!(Filter::new(&config).unwrap_err().contains(said), "{text}");
        }
    }
}
