//! The text of a completion, and the check for its end while tokens arrive.

use super::config::GenerationConfig;
use crate::error::Result;
use crate::tokenizer::{Detokenizer, Tokenizer};

/// What the text of a completion is decoded from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionText {
    /// The tokens of the completion. Tokenizers of LLaMA then drop a leading blank.
    #[default]
    Alone,
    /// Prompt and completion together, as in the reference: the text of the prompt is removed, and the rest ends before
    /// the first EOS, also if ordinary tokens spell it. See [`Tokenizer::decode_after`].
    AfterPrompt,
}

/// The text of a completion so far, for stop strings.
pub(super) struct StreamedText {
    detokenizer: Detokenizer,
    text: String,
}

impl StreamedText {
    /// The text of a completion of `prompt`.
    pub(super) fn new(config: &GenerationConfig, prompt: &[u32]) -> Self {
        let detokenizer = match config.text {
            CompletionText::AfterPrompt if !config.stop_strings.is_empty() => Detokenizer::after(prompt),
            CompletionText::AfterPrompt | CompletionText::Alone => Detokenizer::default(),
        };
        Self { detokenizer, text: String::new() }
    }

    /// Appends the last token of `completion`. Returns whether the text ends there.
    pub(super) fn push(
        &mut self,
        config: &GenerationConfig,
        tokenizer: &Tokenizer,
        completion: &[u32],
    ) -> Result<bool> {
        let Some(token) = completion.last() else { return Ok(false) };
        if !config.stop_strings.is_empty() {
            self.text.push_str(&self.detokenizer.push(tokenizer, *token)?);
            if stop_at(config, &self.text).is_some() {
                return Ok(true);
            }
        }
        // EOS is banned before `min_new_tokens`. If it is spelled there, the text ends but the completion goes on.
        let may_end = config.text == CompletionText::AfterPrompt && completion.len() >= config.min_new_tokens;
        if may_end { tokenizer.spells_eos(completion) } else { Ok(false) }
    }
}

/// The text of all tokens of a completion, before the first stop string, and whether there is one.
pub(super) fn decode(
    config: &GenerationConfig,
    tokenizer: &Tokenizer,
    prompt: &[u32],
    completion: &[u32],
) -> Result<(String, bool)> {
    let mut text = match config.text {
        CompletionText::Alone => tokenizer.decode(completion)?,
        CompletionText::AfterPrompt => tokenizer.decode_after(prompt, completion)?,
    };
    let stop = stop_at(config, &text);
    if let Some(at) = stop {
        text.truncate(at);
    }
    Ok((text, stop.is_some()))
}

/// Start of the first stop string.
fn stop_at(config: &GenerationConfig, text: &str) -> Option<usize> {
    config.stop_strings.iter().filter_map(|stop| text.find(stop.as_str())).min()
}
