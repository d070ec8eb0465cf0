//! Metrics: the score of a row, and the mean over rows with its standard error, as lm-evaluation-harness computes them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use spag_io::quote;

/// A metric, by its name in lm-evaluation-harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// `acc`: the right choice has the highest likelihood; of a continuation: it is what the model would generate.
    Acc,
    /// `acc_norm`: the right choice has the highest likelihood per character.
    AccNorm,
    /// `acc_bytes`: the right choice has the highest likelihood per byte of UTF-8.
    AccBytes,
    /// `r@1`: as `acc`, named as in MuTual.
    RecallAt1,
    /// `r@2`: the right choice has one of the two highest likelihoods.
    RecallAt2,
    /// `mrr`: the mean of 1/rank of the right choice.
    Mrr,
    /// `exact_match`: the generated answer is the expected one; of several samples the share of them.
    ExactMatch,
    /// `mean@k`: the share of the first k samples that are right.
    MeanAt(usize),
    /// `pass@k`: the probability that one of k samples is right, by the unbiased estimator of Chen et al. (2021, arXiv 2107.03374)
    /// over all samples.
    PassAt(usize),
    /// `maj@k`: the answer that most of the first k samples give is right; of answers that are given equally often the first one counts.
    MajAt(usize),
    /// `perplexity`: e to the mean negative log-likelihood of the continuations.
    Perplexity,
    /// `word_perplexity`: perplexity per word, which are separated by white space.
    WordPerplexity,
    /// `byte_perplexity`: perplexity per byte of UTF-8.
    BytePerplexity,
    /// `bits_per_byte`: bits per byte of UTF-8.
    BitsPerByte,
}

/// Metrics without a number of samples, with their names.
const NAMED: [(Metric, &str); 11] = [
    (Metric::Acc, "acc"),
    (Metric::AccNorm, "acc_norm"),
    (Metric::AccBytes, "acc_bytes"),
    (Metric::RecallAt1, "r@1"),
    (Metric::RecallAt2, "r@2"),
    (Metric::Mrr, "mrr"),
    (Metric::ExactMatch, "exact_match"),
    (Metric::Perplexity, "perplexity"),
    (Metric::WordPerplexity, "word_perplexity"),
    (Metric::BytePerplexity, "byte_perplexity"),
    (Metric::BitsPerByte, "bits_per_byte"),
];

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MeanAt(k) => write!(f, "mean@{k}"),
            Self::PassAt(k) => write!(f, "pass@{k}"),
            Self::MajAt(k) => write!(f, "maj@{k}"),
            other => f.write_str(NAMED.iter().find(|(metric, _)| metric == other).map_or("", |(_, name)| name)),
        }
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((metric, _)) = NAMED.iter().find(|(_, name)| *name == text) {
            return Ok(*metric);
        }
        let of_samples = text.split_once('@').and_then(|(name, k)| Some((name, k.parse().ok().filter(|k| *k > 0)?)));
        match of_samples {
            Some(("mean", k)) => Ok(Self::MeanAt(k)),
            Some(("pass", k)) => Ok(Self::PassAt(k)),
            Some(("maj", k)) => Ok(Self::MajAt(k)),
            _ => {
                let names: Vec<&str> = NAMED.iter().map(|(_, name)| *name).collect();
                Err(format!("`{}` is no metric; there are {}, mean@K, pass@K and maj@K", quote(text), names.join(", ")))
            }
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Metric {
    /// The samples of a row that it needs.
    pub(crate) fn samples(self) -> usize {
        match self {
            Self::MeanAt(k) | Self::PassAt(k) | Self::MajAt(k) => k,
            _ => 1,
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

/// The score of samples of one row, of which `right` says which are right and `group` which give the same answer: the index of the first one
/// that does.
pub(crate) fn sampled_score(metric: Metric, right: &[bool], group: &[usize]) -> f64 {
    let share = |of: &[bool]| of.iter().filter(|right| **right).count() as f64 / of.len() as f64;
    match metric {
        Metric::MeanAt(k) => share(&right[..k]),
        Metric::PassAt(k) => {
            let wrong = right.iter().filter(|right| !**right).count();
            // 1 − C(wrong, k)/C(n, k).
            1.0 - (0..k).map(|i| wrong.saturating_sub(i) as f64 / (right.len() - i) as f64).product::<f64>()
        }
        Metric::MajAt(k) => {
            let count = |first: usize| group[..k].iter().filter(|other| **other == first).count();
            let most = (0..k).filter(|at| group[*at] == *at).rev().max_by_key(|at| count(*at));
            f64::from(u8::from(most.is_some_and(|at| right[at])))
        }
        _ => share(right),
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
    fn samples_are_scored_by_their_mean_one_of_them_and_most_of_them() {
        let (right, group) = ([true, false, false, true, false], [0, 1, 1, 0, 4]);
        let score = |metric: &str| sampled_score(metric.parse().unwrap(), &right, &group);
        assert_eq!(["mean@1", "mean@2", "exact_match"].map(score), [1.0, 0.5, 0.4]);
        // Two answers are given twice: the first one counts. Of the first three samples most give another one.
        assert_eq!(["maj@1", "maj@3", "maj@5"].map(score), [1.0, 0.0, 1.0]);
        // Of the ten pairs of samples three have two wrong ones.
        assert!((score("pass@1") - 0.4).abs() < 1e-12 && (score("pass@2") - 0.7).abs() < 1e-12);
        assert_eq!((score("pass@4"), sampled_score(Metric::PassAt(2), &[false; 5], &group)), (1.0, 0.0));
        for text in ["pass@0", "pass@x", "accuracy", "maj@", "pass@-1"] {
            assert!(text.parse::<Metric>().unwrap_err().contains("is no metric"), "{text}");
        }
        for metric in NAMED.iter().map(|(metric, _)| *metric).chain([Metric::PassAt(8), Metric::MajAt(16)]) {
            assert_eq!(metric.to_string().parse(), Ok(metric));
        }
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
