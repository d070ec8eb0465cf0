//! The text of a completion: complete, and incrementally while tokens arrive.

use super::generation_config::{CompletionText, EosRule, GenerationConfig, Streamed};
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
}

/// Why the text is needed while tokens arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Nothing,
    StopStrings,
    /// For streaming and stop strings.
    Stream,
}

impl StreamedText {
    /// The text of a completion of `prompt`.
    pub(super) fn new(config: &GenerationConfig, tokenizer: &Tokenizer, prompt: &[u32]) -> Self {
        let use_of = match (config.stream, config.text) {
            (Streamed::Text, CompletionText::Alone | CompletionText::Continued) => Use::Stream,
            _ if config.stop_strings.is_empty() => Use::Nothing,
            _ => Use::StopStrings,
        };
        let detokenizer = match config.text {
            _ if use_of == Use::Nothing => Detokenizer::default(),
            CompletionText::Alone => Detokenizer::default(),
            CompletionText::AfterPrompt => Detokenizer::after(prompt),
            CompletionText::Continued => Detokenizer::continuing(tokenizer, prompt),
        };
        Self { detokenizer, text: String::new(), reported: 0, use_of }
    }

    /// Appends the last token of `completion`. Returns whether the text ends there.
    pub(super) fn push(
        &mut self,
        config: &GenerationConfig,
        tokenizer: &Tokenizer,
        completion: &[u32],
    ) -> Result<bool> {
        let Some(token) = completion.last() else { return Ok(false) };
        if self.use_of != Use::Nothing {
            // The text before this was already searched.
            let from = self.text.len() - begun_stop(config, &self.text);
            let certain = self.detokenizer.push(tokenizer, *token)?;
            self.text.push_str(&certain);
            let stops = |text: &str| stop_at(config, text).is_some();
            let held = self.detokenizer.complete_held();
            if stops(&self.text[from..]) || !held.is_empty() && stops(&[&self.text[from..], held].concat()) {
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
    let mut text = match config.text {
        CompletionText::Alone => tokenizer.decode(completion)?,
        CompletionText::AfterPrompt => tokenizer.decode_after(prompt, completion)?,
        CompletionText::Continued => tokenizer.decode_continued(prompt, completion)?,
    };
    let stop = stop_at(config, &text);
    if let Some(at) = stop {
        text.truncate(at);
    }
    Ok((text, stop.is_some()))
}

/// Start of the first stop string, if any.
fn stop_at(config: &GenerationConfig, text: &str) -> Option<usize> {
    config.stop_strings.iter().filter_map(|stop| text.find(stop.as_str())).min()
}
