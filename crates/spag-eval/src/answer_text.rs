//! Generated answers: what is taken from them, and when they are the expected ones.

use fancy_regex::Regex;

use crate::answer_config::{ExactMatchConfig, Filters};
use crate::filter::{Filter, Texts, compile};
use crate::template::Fields;

/// How the answers of a task are read and compared.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    filters: Vec<Filter>,
    ignore: Vec<Regex>,
    compare: ExactMatchConfig,
}

impl AnswerReader {
    /// Compiles the regular expressions. The error says which one is invalid.
    pub(crate) fn new(filters: Option<&Filters>, compare: Option<&ExactMatchConfig>) -> Result<Self, String> {
        let compare = compare.cloned().unwrap_or_default();
        let ignore = compare.ignore.iter().map(|text| compile(text)).collect::<Result<_, _>>()?;
        let filters = filters.iter().flat_map(|filters| &filters.0).map(Filter::new).collect::<Result<_, _>>()?;
        Ok(Self { filters, ignore, compare })
    }

    /// The names of the filters, of which there is one at least: `none` takes answers as they are.
    pub(crate) fn filters(&self) -> Vec<&str> {
        if self.filters.is_empty() { vec!["none"] } else { self.filters.iter().map(Filter::name).collect() }
    }

    /// What each filter looks for in the answers to a row.
    pub(crate) fn texts(&self, fields: &Fields) -> Result<Vec<Texts>, String> {
        self.filters.iter().map(|filter| filter.texts(fields)).collect()
    }

    /// Whether answers are compared as mathematics.
    pub(crate) fn is_math(&self) -> bool {
        self.compare.math
    }

    /// For each answer the index of the first one that is the same.
    pub(crate) fn groups(&self, answers: &[String]) -> Vec<usize> {
        let mut firsts: Vec<usize> = Vec::new();
        let first_like = |(at, answer): (usize, &String)| {
            let same = firsts.iter().copied().find(|first| self.is_right(answer, &answers[*first]));
            same.unwrap_or_else(|| {
                firsts.push(at);
                at
            })
        };
        answers.iter().enumerate().map(first_like).collect()
    }

    /// What a filter takes from an answer to a row with these texts; of mathematics without a filter, what the text answers.
    pub(crate) fn read(&self, filter: usize, answer: &str, texts: &[Texts]) -> String {
        match self.filters.get(filter) {
            Some(filter_of) => filter_of.read(answer, texts.get(filter).map_or(&[], Vec::as_slice)),
            None if self.compare.math => spag_math::extract(answer).unwrap_or_default(),
            None => answer.to_owned(),
        }
    }

    /// Whether an answer is the expected one.
    pub(crate) fn is_right(&self, answer: &str, target: &str) -> bool {
        if self.compare.math {
            return spag_math::equal(target, answer);
        }
        self.normal(answer) == self.normal(target)
    }

    fn normal(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for regex in &self.ignore {
            text = regex.try_replacen(&text, 0, "").map_or_else(|_| text.clone(), |replaced| replaced.into_owned());
        }
        if self.compare.ignore_case {
            text = text.to_lowercase();
        }
        let ignored = |c: char| {
            self.compare.ignore_punctuation && c.is_ascii_punctuation()
                || self.compare.ignore_numbers && c.is_ascii_digit()
        };
        text.retain(|c| !ignored(c));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mathematics_is_found_and_grouped_by_its_value() {
        let reader = AnswerReader::new(None, Some(&ExactMatchConfig { math: true, ..Default::default() })).unwrap();
        let read = ["So \\boxed{\\frac{2}{4}}.", "The answer is 0.5.", "3", "50\\%", "none"]
            .map(|text| reader.read(0, text, &[]));
        assert_eq!(read.each_ref().map(|answer| reader.is_right(answer, "1/2")), [true, true, false, true, false]);
        assert_eq!(reader.groups(&read), [0, 0, 2, 0, 4]);
    }

    #[test]
    fn comparison_ignores_what_the_task_says() {
        let reader = |compare: &ExactMatchConfig| AnswerReader::new(None, Some(compare)).unwrap();
        let exact = reader(&ExactMatchConfig::default());
        assert!(exact.is_right("Yes", "Yes") && !exact.is_right("yes", "Yes") && !exact.is_right(" Yes", "Yes"));
        let loose =
            ExactMatchConfig { ignore: vec![r"\.$".into(), ",".into()], ignore_case: true, ..Default::default() };
        assert!(reader(&loose).is_right("YES, SIR.", "yes sir") && !reader(&loose).is_right("a.b", "ab"));
        let bare = ExactMatchConfig { ignore_punctuation: true, ignore_numbers: true, ..Default::default() };
        assert!(reader(&bare).is_right("(a) 1!", "a "));
    }
}
