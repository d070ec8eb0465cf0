//! The text of a turn while a model generates it, split in reasoning and what is said.

use spag_io::{PromptEnd, ReasoningRule, ReasoningStream, SplitDelta};
use spag_model::tokenizer::Detokenizer;
use spag_model::{GenerationConfig, Tokenizer};

/// The preview of an utterance. It is the utterance but for blanks at the ends, and has no reasoning in what is said.
pub(super) struct Preview {
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    /// Special tokens that are tags of reasoning, which decoding skips.
    tags: Vec<(u32, String)>,
    stream: ReasoningStream,
}

impl Preview {
    /// The preview of a completion of these tokens, a prompt that ends so.
    pub(super) fn new(
        tokenizer: &Tokenizer,
        prompt: &[u32],
        config: &GenerationConfig,
        rule: &ReasoningRule,
        prompt_end: PromptEnd,
    ) -> Self {
        let is_tag = |text: &str| {
            config.reasoning.as_ref().is_some_and(|budget| [budget.tags.open(), budget.tags.close()].contains(&text))
        };
        let tags = tokenizer.special_tokens().filter(|(_, text)| is_tag(text));
        Self {
            tags: tags.map(|(id, text)| (id, text.to_owned())).collect(),
            detokenizer: Detokenizer::continuing(tokenizer, prompt),
            tokenizer: tokenizer.clone(),
            stream: ReasoningStream::new(rule, prompt_end),
        }
    }

    /// What a token adds.
    pub(super) fn push(&mut self, token: u32) -> SplitDelta {
        let text = match self.tags.iter().find(|(tag, _)| *tag == token) {
            Some((_, text)) => text.clone(),
            // Only the preview lacks a token that cannot be decoded.
            None => self.detokenizer.push(&self.tokenizer, token).unwrap_or_default(),
        };
        self.stream.push(&text)
    }

    /// What was held back until the end.
    pub(super) fn finish(&mut self) -> SplitDelta {
        self.stream.finish()
    }
}
