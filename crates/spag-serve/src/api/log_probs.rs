//! Log-probabilities in the two formats of OpenAI's API.
//!
//! Numbers are written with all digits, so they round-trip to the same f32, and the top token of a greedy choice has the
//! same number in both places. JSON has no infinity; -∞ is written as the lowest finite number.

use serde::Serialize;
use serde_json::{Map, Value};
use spag_model::generate::TokenLogProb;
use spag_model::tokenizer::Detokenizer;

use crate::model::ServedModel;

/// The legacy format of completions: four lists with one entry per token.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct LegacyLogProbs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Vec<Option<Map<String, Value>>>,
    text_offset: Vec<usize>,
}

/// Builds the legacy format of a sequence, token by token.
pub(crate) struct LegacyBuilder {
    detokenizer: Detokenizer,
    /// Characters of the text so far.
    characters: usize,
    /// Number of alternatives.
    top: usize,
}

impl LegacyBuilder {
    /// For a text that starts with `prompt` if it is echoed, and follows it otherwise.
    pub(crate) fn new(detokenizer: Detokenizer, top: usize) -> Self {
        Self { detokenizer, characters: 0, top }
    }

    /// Appends a token. `chosen` is `None` for the first token of a sequence, which has no prediction.
    pub(crate) fn push(
        &mut self,
        model: &ServedModel,
        token: u32,
        chosen: Option<&TokenLogProb>,
        into: &mut LegacyLogProbs,
    ) -> spag_model::Result<()> {
        into.tokens.push(model.texts.text(token));
        into.token_logprobs.push(chosen.map(|chosen| number(chosen.log_prob)));
        into.top_logprobs.push(chosen.map(|chosen| self.alternatives(model, chosen)));
        into.text_offset.push(self.characters);
        self.characters += self.detokenizer.push(model.tokenizer(), token)?.chars().count();
        Ok(())
    }

    /// The most likely tokens and the chosen one, keyed by text. If several share a text, it names the chosen token, else
    /// the most likely one; the others are named `token_id:` and their id.
    fn alternatives(&self, model: &ServedModel, chosen: &TokenLogProb) -> Map<String, Value> {
        let named = keys(top_and_chosen(chosen, self.top), chosen.token, |token| model.texts.text(token));
        named.into_iter().map(|(key, log_prob)| (key, number(log_prob).into())).collect()
    }
}

/// The `top` most likely tokens, plus the chosen one if it is not among them, sorted by likelihood.
fn top_and_chosen(chosen: &TokenLogProb, top: usize) -> Vec<(u32, f32)> {
    let mut all: Vec<(u32, f32)> = chosen.top.iter().copied().take(top).collect();
    if !all.iter().any(|(token, _)| *token == chosen.token) {
        all.push((chosen.token, chosen.log_prob));
    }
    all
}

/// A unique key for each token.
fn keys(tokens: Vec<(u32, f32)>, chosen: u32, text: impl Fn(u32) -> String) -> Vec<(String, f32)> {
    let of_chosen = text(chosen);
    let mut named: Vec<(String, f32)> = Vec::with_capacity(tokens.len());
    for (token, log_prob) in tokens {
        let mut key = text(token);
        while (token != chosen && key == of_chosen) || named.iter().any(|(other, _)| *other == key) {
            let is_id = key.starts_with("token_id:");
            key = if is_id { format!("token_id:{key}") } else { format!("token_id:{token}") };
        }
        named.push((key, log_prob));
    }
    named
}

/// The chat format: a list with one entry per token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ChatLogProb {
    token: String,
    logprob: f64,
    bytes: Vec<u8>,
    top_logprobs: Vec<ChatAlternative>,
}

/// An alternative token.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ChatAlternative {
    token: String,
    logprob: f64,
    bytes: Vec<u8>,
}

impl ChatLogProb {
    /// A token with its `top` most likely alternatives.
    pub(crate) fn new(model: &ServedModel, chosen: &TokenLogProb, top: usize) -> Self {
        let texts = &model.texts;
        let alternative = |(token, log_prob): &(u32, f32)| ChatAlternative {
            token: texts.text(*token),
            logprob: number(*log_prob),
            bytes: texts.bytes(*token).to_vec(),
        };
        Self {
            token: texts.text(chosen.token),
            logprob: number(chosen.log_prob),
            bytes: texts.bytes(chosen.token).to_vec(),
            top_logprobs: chosen.top.iter().take(top).map(alternative).collect(),
        }
    }
}

/// A log-probability as a finite number.
fn number(log_prob: f32) -> f64 {
    log_prob.max(f32::MIN).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(token: u32, log_prob: f32, top: &[(u32, f32)]) -> TokenLogProb {
        TokenLogProb { token, log_prob, top: top.to_vec() }
    }

    #[test]
    fn the_chosen_token_is_always_among_the_alternatives() {
        let all = chosen(7, -5.0, &[(1, -0.5), (2, -1.0)]);
        assert_eq!(top_and_chosen(&all, 0), [(7, -5.0)]);
        assert_eq!(top_and_chosen(&all, 1), [(1, -0.5), (7, -5.0)]);
        assert_eq!(top_and_chosen(&chosen(2, -1.0, &all.top), 2), [(1, -0.5), (2, -1.0)]);
    }

    #[test]
    fn tokens_of_one_text_do_not_replace_each_other() {
        let text = |token: u32| ["A", "A", "B", "token_id:0", "A"][token as usize].to_owned();
        let all = vec![(0, -1.0), (1, -2.0), (2, -3.0), (4, -4.0)];
        let expected = [("token_id:0", -1.0), ("A", -2.0), ("B", -3.0), ("token_id:4", -4.0)];
        assert_eq!(keys(all.clone(), 1, text), expected.map(|(key, p)| (key.to_owned(), p)));
        let expected = [("A", -1.0), ("token_id:1", -2.0), ("B", -3.0), ("token_id:4", -4.0)];
        assert_eq!(keys(all, 2, text), expected.map(|(key, p)| (key.to_owned(), p)));
        // A token whose text looks like another token's key.
        let odd = keys(vec![(3, -1.0), (0, -2.0), (1, -3.0)], 1, text);
        assert_eq!(
            odd.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["token_id:0", "token_id:token_id:0", "A"]
        );
    }

    #[test]
    fn numbers_are_read_back_as_the_same_float() {
        for log_prob in [-0.1_f32, -1.234_567_8, -1e-30, -12345.678, 0.0, f32::MIN_POSITIVE, f32::NEG_INFINITY] {
            let text = serde_json::to_string(&number(log_prob)).unwrap();
            let read: f64 = serde_json::from_str(&text).unwrap();
            assert_eq!((read as f32).to_bits(), log_prob.max(f32::MIN).to_bits(), "{text}");
            assert_eq!(read, f64::from(log_prob.max(f32::MIN)), "{text}");
        }
    }
}
