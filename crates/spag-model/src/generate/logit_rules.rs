//! Logit processors of requests: biases, penalties, min-p.

use std::collections::BTreeMap;

use spag_ops::sample::LogitEdit;

/// Biases, penalties and min-p of a request, with vLLM's semantics and order: biases, then repetition, frequency and presence
/// penalties; then temperature, min-p, top-k and top-p.
#[derive(Clone, Debug, PartialEq)]
pub struct LogitRules {
    /// Added to the logits, by token.
    pub bias: BTreeMap<u32, f32>,
    /// Divides positive and multiplies negative logits of tokens in the prompt or completion; above 0, 1 disables it.
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens in the completion.
    pub presence_penalty: f32,
    /// Subtracted from a token's logit once per occurrence in the completion.
    pub frequency_penalty: f32,
    /// Excludes tokens whose probability at the temperature is below this fraction of the likeliest token's; in [0, 1].
    pub min_p: f64,
}

impl Default for LogitRules {
    /// No effect.
    fn default() -> Self {
        Self {
            bias: BTreeMap::new(),
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            min_p: 0.0,
        }
    }
}

impl LogitRules {
    /// Whether logits depend on preceding tokens.
    fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Validates the settings; the error is the reason.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { bias, repetition_penalty, presence_penalty, frequency_penalty, min_p } = self;
        if !(repetition_penalty.is_finite() && *repetition_penalty > 0.0) {
            return Err(format!("repetition_penalty must be above 0, not {repetition_penalty}; 1 is none"));
        }
        for (name, penalty) in [("presence_penalty", presence_penalty), ("frequency_penalty", frequency_penalty)] {
            if !penalty.is_finite() {
                return Err(format!("{name} must be finite, not {penalty}"));
            }
        }
        if !(0.0..=1.0).contains(min_p) {
            return Err(format!("min_p must lie in [0, 1], not {min_p}"));
        }
        match bias.iter().find(|(_, bias)| !bias.is_finite()) {
            Some((token, bias)) => Err(format!("the bias of token {token} must be finite, not {bias}")),
            None => Ok(()),
        }
    }
}

/// Token counts of a request, as needed by its penalties.
#[derive(Debug, Default)]
pub(super) struct TokenUse {
    /// Occurrences in the completion of each token of the prompt and the completion.
    completed: BTreeMap<u32, u32>,
}

impl TokenUse {
    /// The counts before the completion.
    pub(super) fn of_prompt(rules: &LogitRules, prompt: &[u32]) -> Self {
        match rules.repetition_penalty != 1.0 {
            true => Self { completed: prompt.iter().map(|token| (*token, 0)).collect() },
            false => Self::default(),
        }
    }

    /// Counts a token of the completion.
    pub(super) fn push(&mut self, rules: &LogitRules, token: u32) {
        if rules.has_penalties() {
            *self.completed.entry(token).or_default() += 1;
        }
    }

    /// The edits of the next token's logits.
    pub(super) fn edits(&self, rules: &LogitRules) -> Vec<LogitEdit> {
        let mut edits: BTreeMap<u32, LogitEdit> = rules
            .bias
            .iter()
            .map(|(token, bias)| (*token, LogitEdit { bias: *bias, ..LogitEdit::of(*token) }))
            .collect();
        for (token, times) in &self.completed {
            let edit = edits.entry(*token).or_insert(LogitEdit::of(*token));
            edit.repetition = rules.repetition_penalty;
            if *times > 0 {
                edit.penalty = rules.frequency_penalty * *times as f32 + rules.presence_penalty;
            }
        }
        edits.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};
    use serde_json::Value;
    use spag_ops::sample::{Adjustment, Distribution, SampleParams, Sampling, sample};
    use spag_tests::{fixture, json};

    use super::*;

    #[test]
    fn repetition_counts_the_prompt_and_other_penalties_do_not() {
        let rules = LogitRules {
            bias: [(5, 2.0), (9, -1.0)].into(),
            repetition_penalty: 1.2,
            presence_penalty: 0.5,
            frequency_penalty: 0.25,
            min_p: 0.0,
        };
        let mut used = TokenUse::of_prompt(&rules, &[7, 5, 7]);
        [5, 3, 3].into_iter().for_each(|token| used.push(&rules, token));
        let edit = |token, bias, repetition, penalty| LogitEdit { token, bias, repetition, penalty };
        let want = [edit(3, 0.0, 1.2, 1.0), edit(5, 2.0, 1.2, 0.75), edit(7, 0.0, 1.2, 0.0), edit(9, -1.0, 1.0, 0.0)];
        assert_eq!(used.edits(&rules), want);
    }

    #[test]
    fn without_penalties_nothing_is_counted() {
        let rules = LogitRules { min_p: 0.1, ..LogitRules::default() };
        let mut used = TokenUse::of_prompt(&rules, &[1, 2]);
        used.push(&rules, 3);
        assert_eq!(used.edits(&rules), []);
    }

    #[test]
    fn invalid_rules_are_rejected_by_name() {
        let wrong = |rules: LogitRules, name: &str| assert!(rules.check().unwrap_err().contains(name), "{name}");
        let of = LogitRules::default;
        assert_eq!(of().check(), Ok(()));
        wrong(LogitRules { repetition_penalty: 0.0, ..of() }, "repetition_penalty");
        wrong(LogitRules { presence_penalty: f32::NAN, ..of() }, "presence_penalty");
        wrong(LogitRules { frequency_penalty: f32::INFINITY, ..of() }, "frequency_penalty");
        wrong(LogitRules { min_p: 1.5, ..of() }, "min_p");
        wrong(LogitRules { bias: [(3, f32::NAN)].into(), ..of() }, "token 3");
    }

    /// The expected values are written by `scripts/sampling-fixtures.py`.
    #[test]
    fn distributions_are_those_of_the_processors_of_transformers() {
        const DRAWS: usize = 400;
        let list = |value: &Value| -> Vec<u32> {
            value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
        };
        for case in json(fixture("sampling.json")).as_array().unwrap() {
            let settings = &case["settings"];
            let number = |name: &str, default: f64| settings[name].as_f64().unwrap_or(default);
            let bias = settings["logit_bias"].as_object().into_iter().flatten();
            let rules = LogitRules {
                bias: bias.map(|(token, bias)| (token.parse().unwrap(), bias.as_f64().unwrap() as f32)).collect(),
                repetition_penalty: number("repetition_penalty", 1.0) as f32,
                presence_penalty: number("presence_penalty", 0.0) as f32,
                frequency_penalty: number("frequency_penalty", 0.0) as f32,
                min_p: number("min_p", 0.0),
            };
            let mut used = TokenUse::of_prompt(&rules, &list(&case["prompt"]));
            list(&case["completion"]).into_iter().for_each(|token| used.push(&rules, token));
            let top_p = settings["top_p"].as_f64();
            let sampling = Sampling::random(number("temperature", 1.0), number("top_k", 0.0) as usize, top_p);
            let adjustment = Adjustment { allowed: None, edits: used.edits(&rules), min_p: rules.min_p };
            let params = |at| SampleParams {
                distribution: Distribution { sampling, ..Distribution::default() },
                uniform: (f64::from(at) + 0.5) / DRAWS as f64,
                adjustment: Some(Box::new(adjustment.clone())),
            };
            let params: Vec<SampleParams> = (0..DRAWS as u32).map(params).collect();
            let logits: Vec<f32> =
                case["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap() as f32).collect();
            let rows = Tensor::from_vec(logits.repeat(DRAWS), (DRAWS, logits.len()), &Device::Cpu).unwrap();
            let expected: BTreeMap<u32, f64> = case["log_probs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|pair| (pair[0].as_u64().unwrap() as u32, pair[1].as_f64().unwrap()))
                .collect();
            let mut drawn = BTreeMap::<u32, usize>::new();
            for one in sample(&rows, &params).unwrap() {
                let one = one.unwrap();
                let want = expected.get(&one.token).unwrap_or_else(|| panic!("{one:?}: {settings}"));
                assert!((f64::from(one.sampling_log_prob) - want).abs() < 2e-5, "{one:?}, {want}: {settings}");
                *drawn.entry(one.token).or_default() += 1;
            }
            // Each token has its share of the uniform numbers, so all tokens with non-zero probability are sampled.
            for (token, log_prob) in expected {
                let (share, found) = (log_prob.exp() * DRAWS as f64, *drawn.get(&token).unwrap_or(&0) as f64);
                assert!((share - found).abs() <= 1.01, "{token}: {found}, not {share}: {settings}");
            }
        }
    }
}
