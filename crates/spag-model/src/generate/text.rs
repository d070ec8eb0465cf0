//! The text of a completion: complete, and incrementally while tokens arrive.

use std::borrow::Cow;

use super::generation_config::{CompletionText, EosRule, GenerationConfig, Streamed};
use super::reasoning::{ReasoningState, utterance_in};
use crate::error::Result;
use crate::tokenizer::{Detokenizer, Tokenizer};

/// The text of a completion so far, for stop strings and for streams.
pub(super) struct StreamedText {
    detokenizer: Detokenizer,
    /// The final text, which later tokens do not change.
    text: String,
    /// Reported bytes of `text`.
    reported: usize,
    use_of: Use,
    /// Special tokens that are tags of reasoning, with their texts.
    shown: Vec<(u32, String)>,
}

/// Why the text is needed while tokens arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Nothing,
    /// For stop strings and tags of reasoning.
    Search,
    /// For streaming and stop strings.
    Stream,
}

impl StreamedText {
    /// The text of a completion of `prompt`.
    pub(super) fn new(config: &GenerationConfig, tokenizer: &Tokenizer, prompt: &[u32]) -> Self {
        let use_of = match (config.stream, config.text) {
            (Streamed::Text, CompletionText::Alone | CompletionText::Continued) => Use::Stream,
            _ if config.stop_strings.is_empty() && config.reasoning.is_none() => Use::Nothing,
            _ => Use::Search,
        };
        let detokenizer = match config.text {
            _ if use_of == Use::Nothing => Detokenizer::default(),
            CompletionText::Alone => Detokenizer::default(),
            CompletionText::AfterPrompt => Detokenizer::after(prompt),
            CompletionText::Continued => Detokenizer::continuing(tokenizer, prompt),
        };
        let shown = shown(config, tokenizer);
        Self { detokenizer, text: String::new(), reported: 0, use_of, shown }
    }

    /// Appends the last token of `completion`. Returns whether the text ends there.
    pub(super) fn push(
        &mut self,
        config: &GenerationConfig,
        tokenizer: &Tokenizer,
        completion: &[u32],
        reasoning: Option<&mut ReasoningState>,
    ) -> Result<bool> {
        let Some(token) = completion.last() else { return Ok(false) };
        if self.use_of != Use::Nothing {
            // The text before this was already searched.
            let from = self.text.len() - begun_stop(config, &self.text);
            match self.shown.iter().find(|(shown, _)| shown == token) {
                Some((_, tag)) => self.text.push_str(tag),
                None => self.text.push_str(&self.detokenizer.push(tokenizer, *token)?),
            }
            let said_from = match reasoning {
                Some(state) => {
                    state.advance(&self.text, completion.len());
                    state.utterance_at()
                }
                None => Some(0),
            };
            let stops = |text: &str| stop_at(config, text).is_some();
            let held = self.detokenizer.complete_held();
            if let Some(from) = said_from.map(|said| said.max(from))
                && (stops(&self.text[from..]) || !held.is_empty() && stops(&[&self.text[from..], held].concat()))
            {
                return Ok(true);
            }
        }
        if config.eos == EosRule::Ignored {
            return Ok(false);
        }
        // EOS is banned before `min_new_tokens`. If it is spelled there by other tokens, the text ends but the
        // completion continues.
        let may_end = config.text == CompletionText::AfterPrompt && completion.len() >= config.min_new_tokens;
        if may_end { tokenizer.spells_eos(completion) } else { Ok(false) }
    }

    /// The text that became final since the last call and cannot be the start of a stop string.
    pub(super) fn delta(&mut self, config: &GenerationConfig) -> String {
        if self.use_of != Use::Stream {
            return String::new();
        }
        let most = self.text.len() - begun_stop(config, &self.text[self.reported..]);
        let delta = self.text[self.reported..most].to_owned();
        self.reported = most;
        delta
    }

    /// The text so far, from a byte on.
    pub(super) fn from(&self, at: usize) -> &str {
        self.text.get(at..).unwrap_or_default()
    }

    /// The rest of the complete text.
    pub(super) fn rest<'a>(&self, whole: &'a str) -> &'a str {
        whole.get(self.reported..).unwrap_or_default()
    }
}

/// Bytes at the end of `text` that may be the start of a stop string.
fn begun_stop(config: &GenerationConfig, text: &str) -> usize {
    let begun = |stop: &String| {
        let longest = (stop.len() - 1).min(text.len());
        (1..=longest).rev().find(|length| text.as_bytes().ends_with(&stop.as_bytes()[..*length])).unwrap_or(0)
    };
    config.stop_strings.iter().map(begun).max().unwrap_or(0)
}

/// The text of all tokens of a completion before the first stop string, and whether a stop string occurs.
pub(super) fn decode(
    config: &GenerationConfig,
    tokenizer: &Tokenizer,
    prompt: &[u32],
    completion: &[u32],
) -> Result<(String, bool)> {
    let decode = |prompt: &[u32], completion: &[u32]| match config.text {
        CompletionText::Alone => tokenizer.decode(completion),
        CompletionText::AfterPrompt => tokenizer.decode_after(prompt, completion),
        CompletionText::Continued => tokenizer.decode_continued(prompt, completion),
    };
    let (mut text, mut before, mut rest) = (String::new(), Cow::Borrowed(prompt), completion);
    let shown = shown(config, tokenizer);
    while let Some(at) = rest.iter().position(|token| shown.iter().any(|(shown, _)| shown == token)) {
        text.push_str(&decode(&before, &rest[..at])?);
        text.extend(shown.iter().filter(|(shown, _)| *shown == rest[at]).map(|(_, tag)| tag.as_str()));
        before.to_mut().extend(&rest[..=at]);
        rest = &rest[at + 1..];
    }
    text.push_str(&decode(&before, rest)?);
    let from = utterance_in(config.reasoning.as_ref(), &text);
    let stop = from.and_then(|from| Some(from + stop_at(config, text.get(from..)?)?));
    if let Some(at) = stop {
        text.truncate(at);
    }
    Ok((text, stop.is_some()))
}

/// Start of the first stop string, if any.
fn stop_at(config: &GenerationConfig, text: &str) -> Option<usize> {
    config.stop_strings.iter().filter_map(|stop| text.find(stop.as_str())).min()
}

/// The special tokens that are tags of reasoning, which decoding would skip.
fn shown(config: &GenerationConfig, tokenizer: &Tokenizer) -> Vec<(u32, String)> {
    let Some(budget) = &config.reasoning else { return Vec::new() };
    let is_tag = |text: &str| [budget.tags.open(), budget.tags.close()].contains(&text);
    tokenizer.special_tokens().filter(|(_, text)| is_tag(text)).map(|(id, text)| (id, text.to_owned())).collect()
}
