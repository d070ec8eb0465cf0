//! A language model as a player.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use spag_chat::{PromptEncoder, PromptHistory, ReasoningSettings, TemplateSettings};
use spag_game::{
    Generation, Policy, PolicyError, PollMode, ReasoningEnd, Reply, Said, Seat, TurnContext, TurnFailure, TurnRequest,
    UtteranceEnd, UtteranceRule,
};
use spag_io::{PromptEnd, PromptFormat, TurnPrompt};
use spag_model::adapter::Adapter;
use spag_model::generate::{
    AdapterChoice, Distribution, Event, FinishReason, GenerationStats, Prompt, RequestError, RequestId,
};
use spag_model::params::WeightSource;
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Request};

use crate::error::Result;
use crate::held_actions::HeldActions;
use crate::own_tokens::{self, Shown};
use crate::shared_engine::SharedEngine;
use crate::utterance_settings::{ReasoningStart, UtteranceSettings};

/// A model that answers turn requests through an engine, in which others can play beside it.
///
/// Each utterance is sampled with the seed of its request, so a game does not depend on the games beside it. What its text
/// is decoded from follows from the rule of the turn.
pub struct ModelPlayer {
    engine: SharedEngine,
    encoder: PromptEncoder,
    settings: UtteranceSettings,
    /// Whether later prompts have the player's own reasoning.
    keeps_reasoning: bool,
    prompts: Prompts,
    /// The turns of open requests.
    turns: HashMap<RequestId, OpenTurn>,
    /// Games whose turn has a text that the tokenizer cannot encode.
    unanswered: Vec<Reply>,
    /// What holds utterances to the actions that their turns list, if anything does.
    held: Option<HeldActions>,
    /// What utterances report as the version of the weights, if it is not the engine's.
    version: Option<u64>,
}

struct OpenTurn {
    game: usize,
    seat: Seat,
    rule: UtteranceRule,
    config: Arc<GenerationConfig>,
    /// Whether the prompt opens reasoning.
    prompt_end: PromptEnd,
    /// The tokens of the prompt, if they are kept.
    prompt: Vec<u32>,
}

/// How prompts become tokens.
enum Prompts {
    /// Each as a whole, as the reference does.
    Encoded,
    /// Piece by piece, with the sampled tokens of the player's own utterances: by game and seat.
    Verbatim(HashMap<(usize, Seat), PromptHistory>),
}

impl ModelPlayer {
    /// Creates a player from a checkpoint. The weights of a clone are shared until they are packed.
    ///
    /// # Errors
    /// Invalid settings.
    pub fn load(checkpoint: Checkpoint, config: GenerationConfig, engine: EngineConfig) -> Result<Self> {
        config.check().map_err(spag_model::Error::from)?;
        let engine = Engine::from_checkpoint(checkpoint, engine)?;
        let encoder = PromptEncoder::new(engine.tokenizer().clone());
        let settings = UtteranceSettings::new(config, engine.config().max_length);
        Ok(Self::new(SharedEngine::new(engine), encoder, settings))
    }

    /// The same player, which thinks before it speaks, and whose template has these variables, in prompts of a kind.
    ///
    /// # Errors
    /// As [`PromptEncoder::with_settings`].
    pub fn with_reasoning(
        self,
        template: &TemplateSettings,
        reasoning: &ReasoningSettings,
        prompts: PromptFormat,
    ) -> Result<Self> {
        let encoder = self.encoder.with_settings(template, reasoning, prompts)?;
        let (keeps_reasoning, settings) = (reasoning.keep_reasoning, self.settings.with_reasoning(reasoning));
        Ok(Self { encoder, settings, keeps_reasoning, ..self })
    }

    pub(crate) fn engine_and_encoder(&mut self) -> (&mut SharedEngine, &PromptEncoder) {
        (&mut self.engine, &self.encoder)
    }

    /// The same player, whose utterances report `version` in place of the version of the engine's weights.
    pub fn with_version(self, version: u64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Replaces the weights of the engine, and calls them `version`: [`Engine::refresh`]. Later utterances report it.
    ///
    /// # Errors
    /// As [`Engine::refresh`]: turns of any player that have started, or weights of another architecture, change nothing.
    pub fn refresh(&mut self, weights: &dyn WeightSource, version: u64) -> Result<()> {
        Ok(self.engine.with(|engine| engine.refresh(weights, version))?)
    }

    /// The budget of a prompt.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text, or the model has no template for a chat.
    pub fn context_budget(&self, prompt: &TurnPrompt) -> Result<ContextBudget> {
        let utterance = self.settings.longest(&self.encoder, prompt)?;
        let length = self.engine.with(|engine| engine.config().max_length);
        Ok(ContextBudget { prompt: self.encoder.encode(prompt)?.len(), utterance, length })
    }

    /// Removes the adapters of all other names, whose players are gone.
    ///
    /// # Errors
    /// As [`Engine::remove_adapter`].
    pub fn keep_adapters(&self, names: &[&str]) -> Result<()> {
        self.engine.with(|engine| {
            let others: Vec<String> =
                engine.adapters().filter(|other| !names.contains(other)).map(str::to_owned).collect();
            Ok(others.iter().try_for_each(|other| engine.remove_adapter(other))?)
        })
    }

    /// Another player with the same engine and settings, whose utterances are rows of the same batches: the base model, or one with
    /// an adapter, which gets this name and is read once. They report `version`.
    ///
    /// # Errors
    /// An adapter for another architecture, or too little memory.
    pub fn beside(&self, adapter: Option<(&str, &Adapter)>, version: Option<u64>) -> Result<Self> {
        let name = adapter.map(|(name, _)| name);
        self.engine.with(|engine| match adapter {
            Some((name, adapter)) if engine.adapters().all(|other| other != name) => engine.add_adapter(name, adapter),
            _ => Ok(()),
        })?;
        let adapter = name.map_or(AdapterChoice::Base, AdapterChoice::named);
        let settings = self.settings.with_adapter(adapter);
        let held = self.held.clone();
        let keeps_reasoning = self.keeps_reasoning;
        let player =
            Self { held, version, keeps_reasoning, ..Self::new(self.engine.beside(), self.encoder.clone(), settings) };
        Ok(match self.prompts {
            Prompts::Encoded => player,
            Prompts::Verbatim(_) => player.with_verbatim_history(),
        })
    }
}

/// The tokens that a prompt and an utterance need, and the number available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextBudget {
    /// Tokens of the prompt, including BOS if the tokenizer has one.
    pub prompt: usize,
    /// Maximum tokens of an utterance.
    pub utterance: usize,
    /// Tokens of prompt and utterance together that the player's settings and the model allow.
    pub length: usize,
}

impl ContextBudget {
    /// Tokens of a prompt that fit before the longest utterance.
    pub fn room(&self) -> usize {
        self.length.saturating_sub(self.utterance)
    }

    /// Tokens that the prompt loses on the left.
    pub fn cut(&self) -> usize {
        self.prompt.saturating_sub(self.room())
    }
}

impl ModelPlayer {
    /// A player whose utterances are generated with `config`, except for [`GenerationConfig::text`] and, in chats, the settings of
    /// [`chat_settings`].
    fn new(engine: SharedEngine, encoder: PromptEncoder, settings: UtteranceSettings) -> Self {
        let (prompts, turns, unanswered) = (Prompts::Encoded, HashMap::new(), Vec::new());
        let (held, version, keeps_reasoning) = (None, None, false);
        Self { engine, encoder, settings, keeps_reasoning, prompts, turns, unanswered, held, version }
    }

    /// The same player, whose prompts have its own utterances as the tokens that it sampled ([`PromptHistory`]), and whose
    /// utterances come with their [`TurnContext`].
    pub fn with_verbatim_history(self) -> Self {
        Self { prompts: Prompts::Verbatim(HashMap::new()), ..self }
    }

    /// The same player, whose utterances in games that list their actions are one of them. What it samples is then not drawn from the
    /// distributions that turns report.
    ///
    /// # Errors
    /// The vocabulary cannot be held to grammars.
    pub fn with_held_actions(self) -> Result<Self> {
        Ok(Self { held: Some(HeldActions::new(self.encoder.tokenizer())?), ..self })
    }

    /// Forgets the utterances of all games, which have ended.
    pub fn forget_games(&mut self) {
        if let Prompts::Verbatim(histories) = &mut self.prompts {
            histories.clear();
        }
    }

    /// What the first `tokens` tokens of an utterance under a rule are drawn from; `None` if all are drawn from the model's own
    /// distribution.
    ///
    /// # Errors
    /// The rule is of chats, and the model has no template.
    pub fn distributions(&mut self, rule: UtteranceRule, tokens: usize) -> Result<Option<Vec<Distribution>>> {
        let config = self.settings.of(rule, &self.encoder, ReasoningStart::Never)?;
        let eos = self.encoder.tokenizer().eos_ids();
        let all: Vec<Distribution> = (0..tokens).map(|at| config.distribution(at, eos)).collect();
        Ok((!all.iter().all(Distribution::is_of_model)).then_some(all))
    }

    /// Whether both play with one engine.
    pub(crate) fn shares_engine(&self, other: &Self) -> bool {
        self.engine.is_that_of(&other.engine)
    }

    /// The work of the engine so far.
    pub fn stats(&self) -> GenerationStats {
        self.engine.stats()
    }
}

impl Policy for ModelPlayer {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        let actions = turn.legal_actions.filter(|actions| self.held.is_some() && !actions.is_empty());
        let prompt = match self.keeps_reasoning {
            true => Cow::Owned(turn.prompt_with_reasoning(self.encoder.reasoning())),
            false => Cow::Borrowed(turn.prompt),
        };
        let encoded = self.encoder.text(&prompt).and_then(|mut text| {
            let start = match actions {
                Some(_) => ReasoningStart::opened(&self.encoder, prompt.format(), &mut text)?,
                None => ReasoningStart::after(&self.encoder, &text),
            };
            let tokens = match &mut self.prompts {
                Prompts::Encoded => self.encoder.begin(&prompt, &text),
                Prompts::Verbatim(histories) => {
                    histories.entry((turn.number, turn.seat)).or_default().prompt(&self.encoder, &prompt, text)
                }
            }?;
            Ok((tokens, start))
        });
        let (tokens, start) = match encoded {
            Ok(encoded) => encoded,
            Err(error) => {
                self.unanswered.push(without_tokens(turn.number, error)?);
                return Ok(());
            }
        };
        let config = self.settings.of(turn.utterance_rule, &self.encoder, start).map_err(PolicyError::caused_by)?;
        let config = match (&mut self.held, actions) {
            (Some(held), Some(actions)) => held.hold(&config, actions).map_err(PolicyError::caused_by)?,
            _ => config,
        };
        let prompt = if matches!(self.prompts, Prompts::Verbatim(_)) { tokens.clone() } else { Vec::new() };
        match self.engine.submit(Request { prompt: Prompt::Tokens(tokens), seed: turn.seed, config: config.clone() }) {
            Ok(id) => {
                let (game, seat, rule, prompt_end) = (turn.number, turn.seat, turn.utterance_rule, start.prompt_end());
                self.turns.insert(id, OpenTurn { game, seat, rule, config, prompt_end, prompt });
            }
            Err(error) => self.unanswered.push(failed(turn.number, error)?),
        }
        Ok(())
    }

    /// Runs one step of the engine in either mode.
    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PolicyError> {
        let events = self.engine.step().map_err(PolicyError::caused_by)?;
        let mut replies = std::mem::take(&mut self.unanswered);
        for (id, event) in events {
            // Nothing is streamed, so every event is the last of its request.
            let Some(OpenTurn { game, seat, rule, config, prompt_end, mut prompt }) = self.turns.remove(&id) else {
                continue;
            };
            match event {
                Event::Finished(completion) => {
                    let (end, truncated) = (end(completion.finish), completion.truncated_tokens);
                    let policy_version = self.version.unwrap_or(completion.policy_version);
                    let eos = self.encoder.tokenizer().eos_ids();
                    let forced = !completion.reasoning.forced.is_empty();
                    let (text, mut generation) = said(Completion { policy_version, ..completion }, (&config, eos));
                    let mut said = rule.said(&text, self.encoder.reasoning(), prompt_end);
                    said.reasoning_end = said.reasoning_end.or(forced.then_some(ReasoningEnd::Forced));
                    if let Prompts::Verbatim(histories) = &mut self.prompts {
                        prompt.drain(..truncated.min(prompt.len()));
                        let context = TurnContext { prompt, rule, end };
                        let history = histories.entry((game, seat)).or_default();
                        let kept = if self.keeps_reasoning { Shown::WithReasoning } else { Shown::Alone };
                        own_tokens::record(history, &self.encoder, (&said, prompt_end, kept), (&context, &generation))
                            .map_err(PolicyError::caused_by)?;
                        generation.context = Some(context);
                    }
                    replies.push(Reply { number: game, utterance: Ok(Said { generation: Some(generation), ..said }) });
                }
                Event::Failed(error) => replies.push(failed(game, error)?),
                Event::Prompt(_) | Event::Token(_) => {}
            }
        }
        Ok(replies)
    }
}

fn end(finish: FinishReason) -> UtteranceEnd {
    match finish {
        FinishReason::Eos | FinishReason::StopToken => UtteranceEnd::Token,
        FinishReason::StopString => UtteranceEnd::Text,
        FinishReason::Length => UtteranceEnd::Length,
    }
}

/// The text of a completion and its tokens. What was drawn from the model's own distribution has the log-probability of the model, with the bits
/// of a learner's on a CPU.
fn said(completion: Completion, (config, eos): (&GenerationConfig, &[u32])) -> (String, Generation) {
    let Completion { text, token_ids, model_log_probs, mut sampling_log_probs, policy_version, reasoning, .. } =
        completion;
    for (at, (drawn, model)) in sampling_log_probs.iter_mut().zip(&model_log_probs).enumerate() {
        if config.distribution(at, eos).is_of_model() {
            *drawn = *model;
        }
    }
    let generation = Generation {
        token_ids,
        model_log_probs,
        sampling_log_probs,
        reasoning_tokens: reasoning.count,
        forced_tokens: reasoning.forced,
        policy_version,
        context: None,
    };
    (text, generation)
}

/// The reply of a game whose prompt has no tokens because of its text. A model without a template would fail every game.
fn without_tokens(number: usize, error: spag_chat::Error) -> Result<Reply, PolicyError> {
    match error {
        spag_chat::Error::Render(_) => Ok(Reply { number, utterance: Err(TurnFailure::new(error.to_string())) }),
        error if error.is_of_text() => Ok(Reply { number, utterance: Err(TurnFailure::of_text(error.to_string())) }),
        error => Err(PolicyError::caused_by(error)),
    }
}

/// The reply of a game whose text the tokenizer cannot encode or decode, for example because of a token beyond the vocabulary,
/// or which is too long for a chat. Anything else would fail every game: a wrong setting, or a model whose logits are not
/// finite.
fn failed(number: usize, error: RequestError) -> Result<Reply, PolicyError> {
    match error {
        RequestError::Encoding { .. } | RequestError::PromptTooLong { .. } => {
            Ok(Reply { number, utterance: Err(TurnFailure::of_text(error.to_string())) })
        }
        other => Err(PolicyError::caused_by(other)),
    }
}
