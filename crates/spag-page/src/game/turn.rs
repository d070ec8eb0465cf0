//! A model's turn: the request to its engine, and the stream of its utterance.
//!
//! Prompt, seed and settings are those of `spag-play`, so that the same game has the same utterance.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};
use spag_chat::ReasoningSettings;
use spag_game::{ReasoningEnd, Said, Seat, UtteranceRule, game_seed};
use spag_io::{PromptEnd, ReasoningRule, SplitDelta};
use spag_model::generate::{Event, Prompt, Sampling, Streamed};
use spag_model::{Completion, GenerationConfig, Request};
use spag_selfplay::{LengthSettings, ReasoningStart, SamplingSettings, UtteranceSettings};
use spag_serve::{ApiError, Generation, ModelHandle, event_response};

use super::preview::Preview;
use super::{Game, PlayedGames};

/// Tokens that are put into one piece of a stream.
const COALESCED: usize = 64;

/// The rules and the settings of all games of a page.
#[derive(Clone, Debug)]
pub(crate) struct PlayRules {
    pub(crate) games: PlayedGames,
    pub(crate) sampling: SamplingSettings,
    pub(crate) length: LengthSettings,
    pub(crate) reasoning: ReasoningSettings,
}

impl PlayRules {
    /// Tokens of an utterance of a model: at most a quarter of its context, so that rules and history fit before it.
    pub(crate) fn utterance_tokens(&self, model: &ModelHandle) -> usize {
        self.length.max_new_tokens.min((model.max_length() / 4).max(1))
    }

    /// How the models of a game choose their tokens.
    fn sampling(&self, game: &Game) -> Sampling {
        let temperature = game.temperature.unwrap_or(self.sampling.temperature);
        SamplingSettings { temperature, ..self.sampling }.sampling()
    }

    /// The request for the next utterance, and what splits its completion.
    ///
    /// # Errors
    /// The game is too long, the tokenizer cannot encode it, or the model has no template for a chat.
    pub(crate) fn request(&self, game: &Game, model: &ModelHandle) -> Result<(Request, Splitting), ApiError> {
        let position = game.position()?;
        let seat = position.state.to_move();
        let encoder = model.encoder();
        let kept = self.reasoning.keep_reasoning.then(|| encoder.reasoning());
        let prompt = game.prompt(&*position.state, seat, kept);
        let failed = |error: spag_chat::Error| ApiError::server(error.to_string());
        let tokens = model.encode(&prompt)?;
        let max_new_tokens = self.utterance_tokens(model);
        let config = GenerationConfig {
            max_new_tokens,
            min_new_tokens: self.length.min_new_tokens.min(max_new_tokens),
            sampling: self.sampling(game),
            ..GenerationConfig::default()
        };
        let start = ReasoningStart::after(encoder, &encoder.text(&prompt).map_err(failed)?);
        let mut settings = UtteranceSettings::new(config, model.max_length()).with_reasoning(&self.reasoning);
        let utterances = position.state.utterance_rule();
        let config = settings.of(utterances, encoder, start).map_err(failed)?;
        let config = Arc::new(GenerationConfig { stream: Streamed::Text, ..(*config).clone() });
        let seed = game_seed(game.seed, game.episode.history.len());
        let (rule, prompt_end) = (encoder.reasoning().clone(), start.prompt_end());
        let preview = Preview::new((model.tokenizer(), &tokens), &config, (&rule, start));
        let splitting = Splitting { seat, utterances, rule, prompt_end, preview };
        Ok((Request { prompt: Prompt::Tokens(tokens), seed, config }, splitting))
    }
}

/// What splits a completion in reasoning and an utterance.
pub(crate) struct Splitting {
    /// The seat that speaks.
    seat: Seat,
    utterances: UtteranceRule,
    rule: ReasoningRule,
    prompt_end: PromptEnd,
    preview: Preview,
}

/// Streams an utterance: pieces of its text as they come, then the whole utterance and the verdict. If models play alone, pieces of
/// reasoning come too.
///
/// The pieces are a preview. What a model said is decided when it has ended, by the rule of the prompts.
pub(crate) fn stream(game: Game, turn: Generation, splitting: Splitting) -> Response {
    event_response("no-store", UtteranceStream { game, splitting, turn, ended: false }, UtteranceStream::next)
}

struct UtteranceStream {
    game: Game,
    splitting: Splitting,
    /// Kept until all is sent, with its place in the queue.
    turn: Generation,
    ended: bool,
}

impl UtteranceStream {
    /// The next piece of the stream: as many events as have come.
    async fn next(mut self) -> Option<(Vec<u8>, Self)> {
        let (mut text, mut tokens) = (String::new(), 0);
        while !self.ended && (text.is_empty() || tokens < COALESCED) {
            let event = match self.turn.try_next() {
                Some(event) => event,
                None if text.is_empty() => self.turn.next().await,
                None => break,
            };
            tokens += 1;
            match event {
                Ok(Event::Token(token)) => {
                    let pieces = self.splitting.preview.push(token.token.token);
                    text.push_str(&self.pieces(&pieces));
                }
                Ok(Event::Finished(completion)) => text.push_str(&self.finish(completion)),
                Ok(Event::Prompt(_) | Event::Failed(_)) => {}
                Err(error) => text.push_str(&self.end(&error.body())),
            }
        }
        (!text.is_empty()).then_some((text.into_bytes(), self))
    }

    /// The events of pieces of text. A person who plays gets none of reasoning.
    fn pieces(&self, SplitDelta { reasoning, utterance }: &SplitDelta) -> String {
        let reasoning = if self.game.is_watched() { reasoning.as_str() } else { "" };
        let pieces =
            [("reasoning", reasoning), ("delta", utterance)].into_iter().filter(|(_, piece)| !piece.is_empty());
        pieces.map(|(key, piece)| format!("data: {}\n\n", json!({key: piece}))).collect()
    }

    fn end(&mut self, last: &Value) -> String {
        self.ended = true;
        last_events(last)
    }

    fn finish(&mut self, completion: Completion) -> String {
        let rest = self.splitting.preview.finish();
        let pieces = self.pieces(&rest);
        let Splitting { seat, utterances, rule, prompt_end, .. } = &self.splitting;
        let mut said = utterances.said(&completion.text, rule, *prompt_end);
        let is_forced = !completion.reasoning.forced.is_empty();
        said.reasoning_end = said.reasoning_end.or(is_forced.then_some(ReasoningEnd::Forced));
        let last = ended(&mut self.game, *seat, said, completion.truncated_tokens);
        pieces + &self.end(&last)
    }
}

/// Adds an utterance to its game; what the page is told of it. That nothing was said belongs to the game.
pub(super) fn ended(game: &mut Game, seat: Seat, said: impl Into<Said>, truncated_tokens: usize) -> Value {
    let (said, at) = (said.into(), game.episode.history.len());
    let utterance = said.text.clone();
    let unfinished = said.reasoning_end.filter(|end| *end == ReasoningEnd::Unfinished);
    game.add(seat, said);
    match game.json(at) {
        Ok(mut body) => {
            body.insert("utterance".into(), utterance.into());
            body.extend(unfinished.map(|end| ("reasoning_end".into(), json!(end))));
            body.insert("truncated_tokens".into(), truncated_tokens.into());
            body.into()
        }
        Err(error) => error.body(),
    }
}

/// The last events of a stream.
pub(super) fn last_events(last: &Value) -> String {
    format!("data: {last}\n\ndata: [DONE]\n\n")
}
