//! Generated answers: what is taken from them, and when they are the expected ones.

use fancy_regex::Regex;
use spag_io::quote;

use crate::config::{ExactMatchConfig, FilterConfig};
use crate::metric::is_space;

/// How the answers of a task are read and compared.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    filter: Option<(FilterConfig, Regex)>,
    ignore: Vec<Regex>,
    compare: ExactMatchConfig,
}

impl AnswerReader {
    /// Compiles the regular expressions. The error says which one is invalid.
    pub(crate) fn new(filter: Option<&FilterConfig>, compare: Option<&ExactMatchConfig>) -> Result<Self, String> {
        let regex = |text: &str| {
            Regex::new(text)
                .map_err(|error| format!("the regular expression `{}`: {}", quote(text), quote(&error.to_string())))
        };
        let filter = filter.map(|filter| Ok::<_, String>((filter.clone(), regex(&filter.regex)?))).transpose()?;
        let compare = compare.cloned().unwrap_or_default();
        let ignore = compare.ignore.iter().map(|text| regex(text)).collect::<Result<_, _>>()?;
        Ok(Self { filter, ignore, compare })
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

    /// What the filter takes from an answer; of mathematics without a filter, what the text answers. A regular expression that takes too long finds nothing.
    pub(crate) fn read(&self, answer: &str) -> String {
        let Some((filter, regex)) = &self.filter else {
            return if self.compare.math { spag_math::extract(answer).unwrap_or_default() } else { answer.to_owned() };
        };
        let matches: Vec<String> = regex
            .captures_iter(answer)
            .map_while(Result::ok)
            .map(|found| {
                // As Python's findall: of several groups the first that is not empty, of one group that one.
                let mut groups = (1..found.len()).map(|group| found.get(group).map_or("", |group| group.as_str()));
                match found.len() {
                    1 => found.get(0).map_or("", |all| all.as_str()).to_owned(),
                    2 => groups.next().unwrap_or("").to_owned(),
                    _ => groups.find(|group| !group.is_empty()).unwrap_or(&filter.fallback).to_owned(),
                }
            })
            .collect();
        let at = match usize::try_from(filter.select) {
            Ok(from_start) => Some(from_start),
            Err(_) => matches.len().checked_sub(usize::try_from(filter.select.unsigned_abs()).unwrap_or(usize::MAX)),
        };
        at.and_then(|at| matches.get(at))
            .map_or(filter.fallback.clone(), |found| found.trim_matches(is_space).to_owned())
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

    fn filter(regex: &str, select: i64) -> AnswerReader {
        let config = FilterConfig { name: "f".into(), regex: regex.into(), select, fallback: "none".into() };
        AnswerReader::new(Some(&config), None).unwrap()
    }

    #[test]
    fn filters_take_what_python_finds() {
        assert_eq!(filter(r"(?<=the answer is )(.*)(?=\.)", 0).read("so the answer is  Yes. Q."), "Yes. Q");
        assert_eq!(filter(r"\b(True|False)\b", 0).read("not True but False"), "True");
        assert_eq!(filter(r"\b(True|False)\b", -1).read("not True but False"), "False");
        assert_eq!(filter(r"(a)|(b)", 1).read("a b"), "b");
        assert_eq!(filter(r"\d+", 0).read("no number"), "none");
        assert_eq!(filter(r"\d+", -3).read("1 2"), "none");
        assert_eq!(AnswerReader::default().read(" as it is"), " as it is");
    }

    #[test]
    fn mathematics_is_found_and_grouped_by_its_value() {
        let reader = AnswerReader::new(None, Some(&ExactMatchConfig { math: true, ..Default::default() })).unwrap();
        let read =
            ["So \\boxed{\\frac{2}{4}}.", "The answer is 0.5.", "3", "50\\%", "none"].map(|text| reader.read(text));
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

    #[test]
    fn invalid_and_endless_regular_expressions_do_no_harm() {
        let config = FilterConfig { name: "f".into(), regex: "(".into(), select: 0, fallback: "none".into() };
        assert!(AnswerReader::new(Some(&config), None).unwrap_err().contains("regular expression `(`"));
        assert_eq!(filter(r"^(a+)+\1b$", 0).read(&"a".repeat(60)), "none");
    }
}
