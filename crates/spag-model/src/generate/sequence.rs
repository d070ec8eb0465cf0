//! The state of a request in the engine.

use std::ops::Range;
use std::sync::Arc;

use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::adapters::PackedAdapter;
use super::completion::{Completion, FinishReason, RequestId};
use super::generation_config::{EosRule, GenerationConfig, Streamed};
use super::grammar::{GrammarState, SharedGrammar};
use super::kv::PageTable;
use super::logit_rules::TokenUse;
use super::prompt_scores::PromptScores;
use super::reasoning::ReasoningState;
use super::text::{self, StreamedText};
use crate::error::{Error, RequestError};
use crate::tokenizer::Tokenizer;
use spag_ops::sample::{Adjustment, SampleParams, SampledToken, Sampling, TokenLogProb, TokenSet};

/// A request's tokens, its page table and its log-probabilities.
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) config: Arc<GenerationConfig>,
    rng: ChaCha8Rng,
    /// Prompt tokens followed by sampled tokens.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    pub(super) table: PageTable,
    /// Its adapter, kept as long as the sequence, even if removed from the engine.
    pub(super) adapter: Option<Arc<PackedAdapter>>,
    pub(super) preempted: bool,
    used: TokenUse,
    /// The state within the grammar that constrains the completion.
    pub(super) grammar: Option<Box<dyn GrammarState>>,
    /// The tokens that the grammar allows next.
    pub(super) allowed: Option<TokenSet>,
    /// The log-probabilities of the prompt, if requested.
    pub(super) scores: Option<PromptScores>,
    scores_reported: bool,
    truncated: usize,
    cached_tokens: usize,
    model_log_probs: Vec<f32>,
    top_log_probs: Vec<Vec<(u32, f32)>>,
    sampling_log_probs: Vec<f32>,
    text: StreamedText,
    reasoning: Option<ReasoningState>,
}

impl Sequence {
    pub(super) fn new(
        id: RequestId,
        config: Arc<GenerationConfig>,
        seed: u64,
        tokens: Vec<u32>,
        truncated: usize,
        tokenizer: &Tokenizer,
    ) -> Self {
        let text = StreamedText::new(&config, tokenizer, &tokens);
        let reasoning = config.reasoning.as_ref().map(ReasoningState::new);
        let used = TokenUse::of_prompt(&config.rules, &tokens);
        let grammar = config.grammar.as_ref().map(SharedGrammar::start);
        let scores = config.log_probs.prompt.as_ref().map(|range| PromptScores::new(range.within(tokens.len())));
        Self {
            id,
            config,
            rng: ChaCha8Rng::seed_from_u64(seed),
            prompt: tokens.len(),
            tokens,
            table: PageTable::default(),
            adapter: None,
            preempted: false,
            used,
            grammar,
            allowed: None,
            scores,
            scores_reported: false,
            truncated,
            cached_tokens: 0,
            model_log_probs: Vec::new(),
            top_log_probs: Vec::new(),
            sampling_log_probs: Vec::new(),
            text,
            reasoning,
        }
    }

    /// Sets the adapter of a new sequence.
    pub(super) fn set_adapter(&mut self, adapter: Option<Arc<PackedAdapter>>) {
        self.table.root.adapter = adapter.as_ref().map_or(0, |adapter| adapter.root());
        self.adapter = adapter;
    }

    /// Number of tokens to compute: all, except the last token of a prompt that is only scored.
    pub(super) fn computable_tokens(&self) -> usize {
        if self.generates() { self.tokens.len() } else { (self.tokens.len() - 1).max(1) }
    }

    /// Number of tokens not yet computed; 1 while decoding.
    pub(super) fn uncomputed(&self) -> usize {
        self.computable_tokens() - self.table.computed
    }

    /// Maximum number of tokens to compute.
    pub(super) fn max_tokens(&self) -> usize {
        if self.generates() {
            self.prompt.saturating_add(self.config.max_completion_tokens())
        } else {
            self.computable_tokens()
        }
    }

    /// The tokens that may be looked up in the prefix cache: up to the next one whose logits are needed, which must be
    /// computed.
    pub(super) fn cacheable(&self) -> usize {
        let next = self.scores.as_ref().and_then(PromptScores::next_row);
        next.map_or(self.computable_tokens(), |next| next + 1)
    }

    /// The positions of a chunk whose logits are needed to score the prompt.
    pub(super) fn scored_rows(&self, chunk: &Range<usize>) -> Range<usize> {
        self.scores.as_ref().map_or(0..0, |scores| scores.rows_in(chunk))
    }

    /// Whether a completion follows the prompt.
    pub(super) fn generates(&self) -> bool {
        self.config.max_new_tokens > 0
    }

    /// Whether tokens are streamed.
    pub(super) fn streams(&self) -> bool {
        self.config.stream == Streamed::Text
    }

    /// Records `tokens` cached tokens and returns how many count as cache hits. After a preemption none do, since
    /// the sequence computed them itself.
    pub(super) fn record_cache_hit(&mut self, tokens: usize) -> u64 {
        if self.preempted {
            return 0;
        }
        self.cached_tokens += tokens;
        tokens as u64
    }

    /// Sampling parameters of the next token.
    pub(super) fn sampling_params(&mut self, eos: &[u32]) -> SampleParams {
        let mut distribution = self.config.distribution(self.tokens.len() - self.prompt, eos);
        if self.grammar.is_some() && self.is_reasoning() {
            // A text of the grammar has to follow.
            distribution.banned = eos.iter().chain(&self.config.stop_tokens).copied().collect();
        }
        let uniform = if distribution.sampling == Sampling::Greedy { 0.0 } else { self.rng.random() };
        let adjustment = Adjustment {
            allowed: self.allowed.take(),
            edits: self.used.edits(&self.config.rules),
            min_p: self.config.rules.min_p,
        };
        let adjustment = if adjustment.is_empty() { None } else { Some(Box::new(adjustment)) };
        SampleParams { distribution, uniform, adjustment }
    }

    /// Appends a sampled token, with the most likely ones if requested. Returns the finish reason if the completion
    /// ends.
    pub(super) fn push(
        &mut self,
        choice: SampledToken,
        top: Option<Vec<(u32, f32)>>,
        tokenizer: &Tokenizer,
    ) -> Result<Option<FinishReason>, RequestError> {
        self.tokens.push(choice.token);
        self.model_log_probs.push(choice.model_log_prob);
        self.sampling_log_probs.push(choice.sampling_log_prob);
        self.top_log_probs.extend(top);
        self.used.push(&self.config.rules, choice.token);
        if self.config.eos == EosRule::Ends && tokenizer.eos_ids().contains(&choice.token) {
            return Ok(Some(FinishReason::Eos));
        }
        if self.config.stop_tokens.contains(&choice.token) {
            return Ok(Some(FinishReason::StopToken));
        }
        let was_within = self.is_reasoning();
        if let (Some(grammar), false) = (&mut self.grammar, was_within) {
            grammar.accept(choice.token).map_err(RequestError::Grammar)?;
        }
        if self.push_text(tokenizer)? {
            return Ok(Some(FinishReason::StopString));
        }
        if self.force_closing(tokenizer)? || was_within && !self.accept_rest(tokenizer)? {
            return Ok(Some(FinishReason::StopString));
        }
        let before = self.reasoning.as_ref().map_or(0, ReasoningState::before_utterance);
        let is_long = self.tokens.len() - self.prompt >= before.saturating_add(self.config.max_new_tokens);
        Ok((is_long && !self.is_reasoning()).then_some(FinishReason::Length))
    }

    /// Whether the next token is reasoning.
    pub(super) fn is_reasoning(&self) -> bool {
        let state = self.reasoning.as_ref().zip(self.config.reasoning.as_ref());
        state.is_some_and(|(state, budget)| state.is_within(budget))
    }

    /// Adds the last token to the text. Returns whether the text ends there.
    fn push_text(&mut self, tokenizer: &Tokenizer) -> Result<bool, RequestError> {
        let completion = &self.tokens[self.prompt..];
        self.text.push(&self.config, tokenizer, completion, self.reasoning.as_mut()).map_err(Error::of_text)
    }

    /// Writes the closing tag if the budget of reasoning is used up: context for what follows. Returns whether the text ends there.
    fn force_closing(&mut self, tokenizer: &Tokenizer) -> Result<bool, RequestError> {
        let config = self.config.clone();
        let (Some(state), Some(budget)) = (&mut self.reasoning, &config.reasoning) else { return Ok(false) };
        let start = self.tokens.len() - self.prompt;
        if !state.is_used_up(budget, start) {
            return Ok(false);
        }
        state.forced(start..start + budget.closing.len());
        for token in &budget.closing {
            self.tokens.push(*token);
            self.model_log_probs.push(0.0);
            self.sampling_log_probs.push(0.0);
            if config.log_probs.top > 0 {
                self.top_log_probs.push(Vec::new());
            }
            self.used.push(&config.rules, *token);
            if self.push_text(tokenizer)? {
                return Ok(true);
            }
        }
        // A tag that the text does not show, as behind half a character, ends reasoning as well.
        Ok(self.is_reasoning())
    }

    /// Advances the grammar by what the token with the end of the closing tag says beyond it. Returns whether it may.
    fn accept_rest(&mut self, tokenizer: &Tokenizer) -> Result<bool, RequestError> {
        let at = self.reasoning.as_ref().and_then(ReasoningState::utterance_at);
        let (Some(grammar), Some(at)) = (&mut self.grammar, at) else { return Ok(true) };
        let rest = self.text.from(at).trim_start();
        let tokens = if rest.is_empty() { Vec::new() } else { tokenizer.encode_text(rest).map_err(Error::of_text)? };
        Ok(tokens.into_iter().all(|token| grammar.accept(token).is_ok()))
    }

    /// The log-probabilities of the prompt, if requested and not reported yet. Call this once all are computed.
    pub(super) fn unreported_scores(&mut self) -> Option<Vec<Option<TokenLogProb>>> {
        let scores = self.scores.as_ref().filter(|_| !self.scores_reported)?;
        self.scores_reported = true;
        Some(scores.done().to_vec())
    }

    /// The last token, if any.
    pub(super) fn last_token(&self) -> Option<TokenLogProb> {
        let token = *self.tokens[self.prompt..].last()?;
        let log_prob = *self.model_log_probs.last()?;
        let top = self.top_log_probs.last().cloned().unwrap_or_default();
        Some(TokenLogProb { token, log_prob, top })
    }

    /// The text that became final since the last call, while the completion continues.
    pub(super) fn text_delta(&mut self) -> String {
        self.text.delta(&self.config)
    }

    /// Whether the sequence has not been in a pass, so that nothing of it depends on the weights.
    pub(super) fn is_new(&self) -> bool {
        self.table.computed == 0 && !self.preempted
    }

    /// Builds the completion, with the version of the weights. Also returns the text not reported yet.
    pub(super) fn complete(
        self,
        finish: FinishReason,
        policy_version: u64,
        tokenizer: &Tokenizer,
    ) -> Result<(Completion, String), RequestError> {
        let token_ids = self.tokens[self.prompt..].to_vec();
        let tokens = match finish {
            FinishReason::Eos | FinishReason::StopToken => &token_ids[..token_ids.len().saturating_sub(1)],
            FinishReason::StopString | FinishReason::Length => &token_ids[..],
        };
        // Text held back by the detokenizer may contain a stop string too.
        let (text, stopped) =
            text::decode(&self.config, tokenizer, &self.tokens[..self.prompt], tokens).map_err(Error::of_text)?;
        let rest = if self.streams() { self.text.rest(&text).to_owned() } else { String::new() };
        let reasoning = self.reasoning.as_ref().map(|state| state.tokens(token_ids.len())).unwrap_or_default();
        let completion = Completion {
            token_ids,
            text,
            model_log_probs: self.model_log_probs,
            top_log_probs: self.top_log_probs,
            sampling_log_probs: self.sampling_log_probs,
            reasoning,
            prompt_log_probs: self.scores.map(PromptScores::into_done),
            finish: if stopped { FinishReason::StopString } else { finish },
            prompt_tokens: self.prompt,
            truncated_tokens: self.truncated,
            cached_tokens: self.cached_tokens,
            policy_version,
        };
        Ok((completion, rest))
    }
}
