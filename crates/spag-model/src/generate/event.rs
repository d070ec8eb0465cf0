//! Events of requests.

use super::completion::Completion;
use crate::error::RequestError;
use spag_ops::sample::TokenLogProb;

/// An event of a request in a step.
///
/// The last event of a request is `Finished` or `Failed`. The others are reported only with [`Streamed::Text`], since the
/// [`Completion`] contains their data too.
///
/// [`Streamed::Text`]: super::Streamed::Text
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The requested log-probabilities of the prompt: once, before the first token. The first token of a prompt has none.
    Prompt(Vec<Option<TokenLogProb>>),
    /// A generated token.
    Token(TokenEvent),
    /// The request is complete.
    Finished(Completion),
    /// The request cannot be completed.
    Failed(RequestError),
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenEvent {
    /// The token and its log-probability.
    pub token: TokenLogProb,
    /// The text that became final with it. Text is held back while it may be a partial character or the start of a
    /// stop string. The concatenated texts of all tokens are the text of the completion.
    pub text: String,
}
