//! The work of an endpoint.

use super::protocol::Usage;

/// The work of an endpoint, of all its URLs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// Requests sent, including retries.
    pub requests: u64,
    /// Retries.
    pub retries: u64,
    /// Turns without an utterance.
    pub failures: u64,
    /// Prompt tokens as reported by the server.
    pub prompt_tokens: u64,
    /// Completion tokens as reported by the server.
    pub completion_tokens: u64,
}

impl EndpointStats {
    pub(super) fn add(&mut self, usage: Usage) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(usage.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(usage.completion_tokens);
    }
}
