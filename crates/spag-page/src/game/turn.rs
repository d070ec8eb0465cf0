//! A model's turn: the request to its engine, and the stream of its utterance.
//!
//! Prompt, seed and settings are those of `spag-play`, so that the same game has the same utterance.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use spag_game::{Taboo, UtteranceRule, game_seed};
use spag_model::{
    Completion, CompletionText, Detokenizer, Event, GenerationConfig, Prompt, Request, Sampling, Streamed, Tokenizer,
};
use spag_selfplay::{LengthSettings, chat_settings};
use spag_serve::{ApiError, Generation, ModelHandle};

use super::Game;

/// Tokens that are put into one piece of a stream.
const COALESCED: usize = 64;

/// The rules and the settings of all games of a page.
#[derive(Clone, Debug)]
pub(crate) struct PlayRules {
    pub(crate) game: Taboo,
    pub(crate) sampling: Sampling,
    pub(crate) length: LengthSettings,
}

impl PlayRules {
    /// Tokens of an utterance of a model: at most a quarter of its context, so that rules and history fit before it.
    pub(crate) fn utterance_tokens(&self, model: &ModelHandle) -> usize {
        self.length.max_new_tokens.min((model.max_length() / 4).max(1))
    }

    /// The request for the next utterance, and the detokenizer of its preview.
    ///
    /// # Errors
    /// The tokenizer cannot encode the game, or the model has no template for a chat.
    pub(crate) fn request(&self, game: &Game, model: &ModelHandle) -> Result<(Request, Detokenizer), ApiError> {
        let episode = &game.episode;
        let prompt = self.game.prompts.playing_prompt(&episode.history, &episode.item, episode.max_turns);
        let failed = |error: spag_chat::Error| ApiError::server(error.to_string());
        let tokens = model.encoder().encode(&prompt).map_err(failed)?;
        let preview = Detokenizer::continuing(model.tokenizer(), &tokens);
        let max_new_tokens = self.utterance_tokens(model);
        let config = GenerationConfig {
            max_new_tokens,
            min_new_tokens: self.length.min_new_tokens.min(max_new_tokens),
            sampling: self.sampling,
            stream: Streamed::Text,
            ..GenerationConfig::default()
        };
        let config = match self.game.prompts.utterances() {
            UtteranceRule::AsDecoded => GenerationConfig { text: CompletionText::AfterPrompt, ..config },
            UtteranceRule::Trimmed => GenerationConfig { text: CompletionText::Alone, ..config },
            UtteranceRule::Message => chat_settings(&config, model.encoder()).map_err(failed)?,
        };
        let seed = game_seed(game.seed, episode.history.len());
        Ok((Request { prompt: Prompt::Tokens(tokens), seed, config: Arc::new(config) }, preview))
    }
}

/// Streams an utterance: pieces of its text as they come, then the whole utterance and the verdict.
///
/// The pieces are a preview. What a model said is decided when it has ended, by the rule of the prompts.
pub(crate) fn stream(
    game: Game,
    rules: &PlayRules,
    model: ModelHandle,
    turn: Generation,
    preview: Detokenizer,
) -> Response {
    let (rules, utterances) = (rules.game.clone(), rules.game.prompts.utterances());
    let tokenizer = model.tokenizer().clone();
    let body = UtteranceBody { game, rules, utterances, tokenizer, turn, preview, state: State::Speaking };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct UtteranceBody {
    game: Game,
    rules: Taboo,
    utterances: UtteranceRule,
    tokenizer: Tokenizer,
    /// Kept until all is sent, with its place in the queue.
    turn: Generation,
    preview: Detokenizer,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Speaking,
    Ended,
}

/// Server-sent events: `data` and the mark of the end.
fn events(data: &[Value]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

impl UtteranceBody {
    /// The last events of a stream.
    fn end(&mut self, last: Value) -> String {
        self.state = State::Ended;
        events(&[last]) + "data: [DONE]\n\n"
    }

    fn finish(&mut self, completion: Completion) -> String {
        let role = self.game.episode.next_role();
        let utterance = self.utterances.utterance(completion.text);
        self.game.episode.push(role, utterance.as_str());
        let last = match self.game.judge(&self.rules) {
            Ok(judged) => json!({
                "utterance": utterance,
                "verdict": judged.json(),
                "truncated_tokens": completion.truncated_tokens,
            }),
            Err(error) => error.body(),
        };
        self.end(last)
    }
}

impl hyper::body::Body for UtteranceBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let mut text = String::new();
        for _ in 0..COALESCED {
            if this.state == State::Ended {
                break;
            }
            match this.turn.poll_next(context) {
                Poll::Pending if text.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(Ok(Event::Token(token))) => {
                    match this.preview.push(&this.tokenizer, token.token.token) {
                        // Only the preview lacks a token that cannot be decoded.
                        Ok(delta) if !delta.is_empty() => text.push_str(&events(&[json!({"delta": delta})])),
                        _ => {}
                    }
                }
                Poll::Ready(Ok(Event::Finished(completion))) => text.push_str(&this.finish(completion)),
                Poll::Ready(Ok(Event::Prompt(_) | Event::Failed(_))) => {}
                Poll::Ready(Err(error)) => text.push_str(&this.end(error.body())),
            }
        }
        if !text.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(text)))));
        }
        match this.state {
            State::Ended => Poll::Ready(None),
            State::Speaking => {
                // Tokens without text: there may be more.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}
