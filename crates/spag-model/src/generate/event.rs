//! What an engine reports of a request.

use super::completion::Completion;
use crate::error::RequestError;
use spag_ops::sample::TokenLogProb;

/// What happened to a request in a step.
///
/// The last event of a request is `Finished` or `Failed`. The others are reported only if [`Streamed::Text`] is asked for,
/// because what they hold is in the [`Completion`] too.
///
/// [`Streamed::Text`]: super::Streamed::Text
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The log-probabilities of the prompt that were asked for: once, before the first token. The first token of a prompt
    /// has none.
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
    /// The text that became certain with it. Text is held back while it may be half a character or the begin of a stop
    /// string. The texts of all tokens together are the text of the completion.
    pub text: String,
}
