//! Metrics: the score of a row, and the mean over rows with its standard error, as lm-evaluation-harness computes them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A metric, by its name in lm-evaluation-harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Metric {
    /// The right choice has the highest likelihood; of a continuation: it is what the model would generate.
    #[serde(rename = "acc")]
    Acc,
    /// The right choice has the highest likelihood per character.
    #[serde(rename = "acc_norm")]
    AccNorm,
    /// The right choice has the highest likelihood per byte of UTF-8.
    #[serde(rename = "acc_bytes")]
    AccBytes,
    /// As `acc`, named as in MuTual.
    #[serde(rename = "r@1")]
    RecallAt1,
    /// The right choice has one of the two highest likelihoods.
    #[serde(rename = "r@2")]
    RecallAt2,
    /// The mean of 1/rank of the right choice.
    #[serde(rename = "mrr")]
    Mrr,
    /// The generated answer is the expected one.
    #[serde(rename = "exact_match")]
    ExactMatch,
    /// e to the mean negative log-likelihood of the continuations.
    #[serde(rename = "perplexity")]
    Perplexity,
    /// Perplexity per word, which are separated by white space.
    #[serde(rename = "word_perplexity")]
    WordPerplexity,
    /// Perplexity per byte of UTF-8.
    #[serde(rename = "byte_perplexity")]
    BytePerplexity,
    /// Bits per byte of UTF-8.
    #[serde(rename = "bits_per_byte")]
    BitsPerByte,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Metric {
    /// The name in lm-evaluation-harness.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acc => "acc",
            Self::AccNorm => "acc_norm",
            Self::AccBytes => "acc_bytes",
            Self::RecallAt1 => "r@1",
            Self::RecallAt2 => "r@2",
            Self::Mrr => "mrr",
            Self::ExactMatch => "exact_match",
            Self::Perplexity => "perplexity",
            Self::WordPerplexity => "word_perplexity",
            Self::BytePerplexity => "byte_perplexity",
            Self::BitsPerByte => "bits_per_byte",
        }
    }

    /// Whether a higher value is better. Such metrics are shares, from 0 to 1.
    pub fn higher_is_better(self) -> bool {
        !matches!(self, Self::Perplexity | Self::WordPerplexity | Self::BytePerplexity | Self::BitsPerByte)
    }

    /// The value over all rows and its standard error, from the score of each row and its weight: for a perplexity per word the
    /// number of words, else 1.
    ///
    /// lm-evaluation-harness estimates the standard error of `perplexity` by resampling; here it is that of the mean, carried
    /// through the exponential. Weighted means have none, as there.
    pub(crate) fn aggregate(self, scores: &[(f64, f64)]) -> Value {
        let plain: Vec<f64> = scores.iter().map(|(score, _)| *score).collect();
        match self {
            Self::Perplexity => {
                let value = (-mean(&plain)).exp();
                Value { value, stderr: mean_stderr(&plain).map(|stderr| value * stderr) }
            }
            Self::WordPerplexity | Self::BytePerplexity => {
                Value { value: (-weighted_mean(scores)).exp(), stderr: None }
            }
            Self::BitsPerByte => Value { value: -weighted_mean(scores) / std::f64::consts::LN_2, stderr: None },
            _ => mean_value(&plain),
        }
    }
}

/// A metric over all rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The value: a share from 0 to 1, a perplexity, or bits.
    pub value: f64,
    /// Its standard error, if there is one.
    pub stderr: Option<f64>,
}

/// The scores of choices by their log-likelihoods. `lengths` has characters and bytes of each choice.
pub(crate) fn choice_score(metric: Metric, log_likelihoods: &[f64], lengths: &[(usize, usize)], answer: usize) -> f64 {
    let by = |length: fn(&(usize, usize)) -> usize| {
        let per = log_likelihoods.iter().zip(lengths).map(|(sum, both)| sum / length(both) as f64);
        best(&per.collect::<Vec<_>>())
    };
    // Ties are ranked as in MuTual's own script: the rank of a value is that of its first occurrence.
    let own = log_likelihoods.get(answer).copied().unwrap_or(f64::NEG_INFINITY);
    let rank = log_likelihoods.iter().filter(|other| **other > own).count();
    match metric {
        Metric::AccNorm => f64::from(by(|both| both.0) == answer),
        Metric::AccBytes => f64::from(by(|both| both.1) == answer),
        Metric::RecallAt2 => {
            let first = best(log_likelihoods) == answer;
            f64::from(u8::from(rank == 1) + u8::from(first))
        }
        Metric::Mrr => 1.0 / (rank + 1) as f64,
        _ => f64::from(best(log_likelihoods) == answer),
    }
}

/// The first of the highest values, as numpy's argmax: a NaN is the highest.
fn best(values: &[f64]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        let highest = values[best];
        if !highest.is_nan() && (value.is_nan() || *value > highest) {
            best = at;
        }
    }
    best
}

/// The number of words as `re.split(r"\s+", text)` counts them: white space at an end adds an empty one.
pub(crate) fn words(text: &str) -> usize {
    let mut words = 1;
    let mut in_space = false;
    for c in text.chars() {
        let space = is_space(c);
        words += usize::from(space && !in_space);
        in_space = space;
    }
    words
}

/// White space as Python knows it.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The mean of values with its standard error.
pub(crate) fn mean_value(values: &[f64]) -> Value {
    Value { value: mean(values), stderr: mean_stderr(values) }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn weighted_mean(scores: &[(f64, f64)]) -> f64 {
    let (sum, weight) = scores.iter().fold((0.0, 0.0), |(a, b), (score, weight)| (a + score, b + weight));
    sum / weight
}

/// The standard error of a mean, with Bessel's correction; `None` of a single value.
fn mean_stderr(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt() / (values.len() as f64).sqrt())
}

/// The mean over the rows of several tasks, with a pooled standard error, from (value, rows) of each.
pub(crate) fn pooled(parts: &[(Value, usize)]) -> Value {
    let rows: f64 = parts.iter().map(|(_, rows)| *rows as f64).sum();
    let value = parts.iter().map(|(part, rows)| part.value * *rows as f64).sum::<f64>() / rows;
    let squares: Option<f64> = parts
        .iter()
        .map(|(part, rows)| part.stderr.map(|stderr| (*rows as f64 - 1.0) * stderr * stderr * *rows as f64))
        .sum();
    let free = rows - parts.len() as f64;
    let stderr = squares.filter(|_| free > 0.0).map(|squares| (squares / free / rows).sqrt());
    Value { value, stderr }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ties_go_to_the_first_choice() {
        let lengths = [(1, 1), (1, 2), (2, 2)];
        let score = |metric, answer| choice_score(metric, &[-2.0, -2.0, -4.0], &lengths, answer);
        assert_eq!([0, 1, 2].map(|answer| score(Metric::Acc, answer)), [1.0, 0.0, 0.0]);
        assert_eq!([0, 1, 2].map(|answer| score(Metric::AccNorm, answer)), [1.0, 0.0, 0.0]);
        assert_eq!([0, 1, 2].map(|answer| score(Metric::AccBytes, answer)), [0.0, 1.0, 0.0]);
        assert_eq!([0, 1, 2].map(|answer| score(Metric::Mrr, answer)), [1.0, 1.0, 1.0 / 3.0]);
        assert_eq!([0, 1, 2].map(|answer| score(Metric::RecallAt2, answer)), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn words_are_split_as_by_python() {
        assert_eq!(["", "a", "a b", " a  b\n", "a\u{a0}b\u{1f}c"].map(words), [1, 1, 2, 4, 3]);
    }

    #[test]
    fn perplexities_are_those_of_a_uniform_model() {
        let scores = [(-(8f64.ln()) * 3.0, 3.0), (-(8f64.ln()) * 5.0, 5.0)];
        assert!((Metric::WordPerplexity.aggregate(&scores).value - 8.0).abs() < 1e-12);
        assert!((Metric::BitsPerByte.aggregate(&scores).value - 3.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn accuracy_has_the_standard_error_of_a_share(right in 0usize..50, wrong in 0usize..50) {
            prop_assume!(right + wrong >= 2);
            let n = (right + wrong) as f64;
            let scores: Vec<(f64, f64)> = (0..right + wrong).map(|i| (f64::from(u8::from(i < right)), 1.0)).collect();
            let Value { value, stderr } = Metric::Acc.aggregate(&scores);
            let p = right as f64 / n;
            prop_assert!((value - p).abs() < 1e-12);
            prop_assert!((stderr.unwrap() - (p * (1.0 - p) / (n - 1.0)).sqrt()).abs() < 1e-12);
        }

        #[test]
        fn group_has_the_mean_over_all_rows(parts in prop::collection::vec((0usize..20, 2usize..30), 1..6)) {
            let shares = |(right, rows): &(usize, usize)| {
                let right = right % (rows + 1);
                (0..*rows).map(|i| (f64::from(u8::from(i < right)), 1.0)).collect::<Vec<_>>()
            };
            let each: Vec<_> = parts.iter().map(|part| (Metric::Acc.aggregate(&shares(part)), part.1)).collect();
            let all: Vec<_> = parts.iter().flat_map(shares).collect();
            prop_assert!((pooled(&each).value - Metric::Acc.aggregate(&all).value).abs() < 1e-12);
            prop_assert!(pooled(&each).stderr.is_some());
        }

        #[test]
        fn best_choice_wins_in_every_order(values in prop::collection::vec(-50.0f64..0.0, 2..8), answer in 0usize..8) {
            let answer = answer % values.len();
            let lengths = vec![(3, 3); values.len()];
            let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let wins = choice_score(Metric::Acc, &values, &lengths, answer) == 1.0;
            prop_assert!(!wins || values[answer] == highest);
            prop_assert_eq!(choice_score(Metric::AccNorm, &values, &lengths, answer) == 1.0, wins);
            let mut moved = values.clone();
            moved[answer] = highest + 1.0;
            for metric in [Metric::Acc, Metric::RecallAt1, Metric::RecallAt2, Metric::Mrr] {
                prop_assert_eq!(choice_score(metric, &moved, &lengths, answer), 1.0);
            }
        }
    }
}
