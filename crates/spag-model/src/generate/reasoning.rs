//! Reasoning before what a completion says, with a budget of its own.

use std::ops::Range;

use spag_io::{PromptEnd, ReasoningScan, ReasoningTags, Stand};

use super::generation_config::GenerationConfig;
use crate::error::RequestError;

/// Reasoning between tags at the beginning of completions. `max_new_tokens` then counts what follows it; stop strings and grammars hold
/// what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasoningBudget {
    /// The tags.
    pub tags: ReasoningTags,
    /// Whether the prompt ends in the opening tag.
    pub prompt: PromptEnd,
    /// Tokens of reasoning after which the engine ends it, at least 1.
    pub max_tokens: usize,
    /// The tokens by which it does: those of the closing tag, with line breaks as the model writes them.
    pub closing: Vec<u32>,
}

impl GenerationConfig {
    /// The most tokens of a completion: those of reasoning, those that end it, and those of what is said.
    pub fn max_completion_tokens(&self) -> usize {
        let reasoning = self.reasoning.as_ref().map_or(0, |budget| {
            // Without an opening tag, as many tokens as may be said can turn out to be reasoning.
            budget.max_tokens.saturating_add(budget.closing.len()).max(self.max_new_tokens)
        });
        self.max_new_tokens.saturating_add(reasoning)
    }
}

/// Where a completion stands.
pub(super) struct ReasoningState {
    scan: ReasoningScan,
    stand: Stand,
    /// Tokens up to the one in which the closing tag ends.
    end: Option<usize>,
    /// Tokens that the engine wrote.
    forced: Range<usize>,
}

impl ReasoningState {
    pub(super) fn new(budget: &ReasoningBudget) -> Self {
        let scan = ReasoningScan::new(budget.tags.clone(), budget.prompt);
        Self { scan, stand: Stand::Begun, end: None, forced: 0..0 }
    }

    /// A completion has `tokens` tokens, whose text so far is `text`.
    pub(super) fn advance(&mut self, text: &str, tokens: usize) {
        self.stand = self.scan.push(text);
        if matches!(self.stand, Stand::Closed(_)) && self.end.is_none() {
            self.end = Some(tokens);
        }
    }

    /// Whether what follows is reasoning. A text without tags is taken as said until a tag closes it.
    pub(super) fn is_within(&self, budget: &ReasoningBudget) -> bool {
        match self.stand {
            Stand::Begun => budget.prompt == PromptEnd::Opened,
            Stand::Reasoning => true,
            Stand::Unopened | Stand::Closed(_) => false,
        }
    }

    /// Whether the engine ends the reasoning of a completion of `tokens` tokens.
    pub(super) fn is_used_up(&self, budget: &ReasoningBudget, tokens: usize) -> bool {
        self.is_within(budget) && tokens >= budget.max_tokens
    }

    /// Notes that the engine wrote the tokens from `start` to `end`.
    pub(super) fn forced(&mut self, tokens: Range<usize>) {
        self.forced = tokens;
    }

    /// Tokens of a completion that are not what it says, for the limit of those that are.
    pub(super) fn before_utterance(&self) -> usize {
        self.end.map_or(0, |end| end.max(self.forced.end))
    }

    /// Where the text of what is said begins, if that is known.
    pub(super) fn utterance_at(&self) -> Option<usize> {
        match self.stand {
            Stand::Closed(at) => Some(at),
            Stand::Unopened => Some(0),
            Stand::Begun | Stand::Reasoning => None,
        }
    }

    /// What a completion of `tokens` tokens reports.
    pub(super) fn tokens(&self, tokens: usize) -> ReasoningTokens {
        let is_unfinished = self.stand == Stand::Reasoning;
        let count = if is_unfinished { tokens } else { self.before_utterance() };
        ReasoningTokens { count, forced: self.forced.clone(), is_unfinished }
    }
}

/// Which tokens of a completion are reasoning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasoningTokens {
    /// The number of them, at the beginning, those of the closing tag included.
    pub count: usize,
    /// Tokens that the engine wrote to end reasoning. No distribution was asked for them: their log-probabilities are 0.
    pub forced: Range<usize>,
    /// Whether the completion ended within reasoning.
    pub is_unfinished: bool,
}

/// Checks a budget.
pub(super) fn check(budget: &ReasoningBudget) -> Result<(), RequestError> {
    let wrong = |what: &str| Err(RequestError::Setting(what.to_owned()));
    if budget.max_tokens == 0 {
        return wrong("max_reasoning_tokens must be at least 1");
    }
    if budget.closing.is_empty() {
        return wrong("reasoning with a budget needs the tokens of a closing tag");
    }
    Ok(())
}

/// Where a whole text says something, if it does: after reasoning.
pub(super) fn utterance_in(budget: Option<&ReasoningBudget>, text: &str) -> Option<usize> {
    let Some(budget) = budget else { return Some(0) };
    let mut state = ReasoningState::new(budget);
    state.advance(text, 0);
    state.utterance_at()
}
