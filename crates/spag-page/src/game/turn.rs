//! A model's turn: the request to its engine, and the stream of its utterance.
//!
//! Prompt, seed and settings are those of `spag-play`, so that the same game has the same utterance.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};
use spag_game::{Seat, UtteranceRule, game_seed};
use spag_io::{PromptEnd, ReasoningRule};
use spag_model::generate::{Event, Prompt, Sampling, Streamed};
use spag_model::tokenizer::Detokenizer;
use spag_model::{Completion, GenerationConfig, Request, Tokenizer};
use spag_selfplay::{LengthSettings, ReasoningStart, SamplingSettings, UtteranceSettings};
use spag_serve::{ApiError, Generation, ModelHandle, event_response};

use super::{Game, PlayedGames};

/// Tokens that are put into one piece of a stream.
const COALESCED: usize = 64;

/// The rules and the settings of all games of a page.
#[derive(Clone, Debug)]
pub(crate) struct PlayRules {
    pub(crate) games: PlayedGames,
    pub(crate) sampling: SamplingSettings,
    pub(crate) length: LengthSettings,
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

    /// The request for the next utterance, the detokenizer of its preview, and how the prompt ends.
    ///
    /// # Errors
    /// The game is too long, the tokenizer cannot encode it, or the model has no template for a chat.
    pub(crate) fn request(
        &self,
        game: &Game,
        model: &ModelHandle,
    ) -> Result<(Request, Detokenizer, PromptEnd), ApiError> {
        let position = game.position()?;
        let prompt = position.state.prompt(position.state.to_move(), &game.episode);
        let failed = |error: spag_chat::Error| ApiError::server(error.to_string());
        let tokens = model.encode(&prompt)?;
        let preview = Detokenizer::continuing(model.tokenizer(), &tokens);
        let max_new_tokens = self.utterance_tokens(model);
        let config = GenerationConfig {
            max_new_tokens,
            min_new_tokens: self.length.min_new_tokens.min(max_new_tokens),
            sampling: self.sampling(game),
            ..GenerationConfig::default()
        };
        let encoder = model.encoder();
        let start = ReasoningStart::after(encoder, &encoder.text(&prompt).map_err(failed)?);
        let mut settings = UtteranceSettings::new(config, model.max_length());
        let config = settings.of(position.state.utterance_rule(), encoder, start).map_err(failed)?;
        let config = Arc::new(GenerationConfig { stream: Streamed::Text, ..(*config).clone() });
        let seed = game_seed(game.seed, game.episode.history.len());
        Ok((Request { prompt: Prompt::Tokens(tokens), seed, config }, preview, start.prompt_end()))
    }
}

/// Streams an utterance: pieces of its text as they come, then the whole utterance and the verdict.
///
/// The pieces are a preview. What a model said is decided when it has ended, by the rule of the prompts.
///
/// # Errors
/// As [`Game::position`].
pub(crate) fn stream(
    game: Game,
    model: ModelHandle,
    turn: Generation,
    (preview, prompt_end): (Detokenizer, PromptEnd),
) -> Result<Response, ApiError> {
    let state = game.position()?.state;
    let (seat, utterances) = (state.to_move(), state.utterance_rule());
    drop(state);
    let (tokenizer, reasoning) = (model.tokenizer().clone(), model.encoder().reasoning().clone());
    let stream =
        UtteranceStream { game, seat, utterances, reasoning, prompt_end, tokenizer, turn, preview, ended: false };
    Ok(event_response("no-store", stream, UtteranceStream::next))
}

struct UtteranceStream {
    game: Game,
    /// The seat that speaks.
    seat: Seat,
    utterances: UtteranceRule,
    reasoning: ReasoningRule,
    prompt_end: PromptEnd,
    tokenizer: Tokenizer,
    /// Kept until all is sent, with its place in the queue.
    turn: Generation,
    preview: Detokenizer,
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
                Ok(Event::Token(token)) => match self.preview.push(&self.tokenizer, token.token.token) {
                    // Only the preview lacks a token that cannot be decoded.
                    Ok(delta) if !delta.is_empty() => text.push_str(&format!("data: {}\n\n", json!({"delta": delta}))),
                    _ => {}
                },
                Ok(Event::Finished(completion)) => text.push_str(&self.finish(completion)),
                Ok(Event::Prompt(_) | Event::Failed(_)) => {}
                Err(error) => text.push_str(&self.end(&error.body())),
            }
        }
        (!text.is_empty()).then_some((text.into_bytes(), self))
    }

    fn end(&mut self, last: &Value) -> String {
        self.ended = true;
        last_events(last)
    }

    fn finish(&mut self, completion: Completion) -> String {
        let said = self.utterances.said(&completion.text, &self.reasoning, self.prompt_end);
        let last = ended(&mut self.game, self.seat, said.text, completion.truncated_tokens);
        self.end(&last)
    }
}

/// Adds an utterance to its game; what the page is told of it.
pub(super) fn ended(game: &mut Game, seat: Seat, utterance: String, truncated_tokens: usize) -> Value {
    game.episode.push(seat, utterance.as_str());
    match game.json() {
        Ok(mut body) => {
            body.insert("utterance".into(), utterance.into());
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
