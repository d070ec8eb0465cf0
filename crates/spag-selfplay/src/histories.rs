//! The tokens of a model's own utterances in the games that it plays, which its later prompts repeat.

use std::collections::HashMap;

use spag_chat::{PromptEncoder, PromptHistory};
use spag_game::{Seat, TurnRequest};

/// The histories of the games that are played, by number and seat.
#[derive(Default)]
pub(crate) struct Histories(HashMap<(usize, Seat), PromptHistory>);

impl Histories {
    /// The tokens of a turn's prompt.
    pub(crate) fn prompt(&mut self, encoder: &PromptEncoder, turn: &TurnRequest<'_>) -> spag_chat::Result<Vec<u32>> {
        self.0.entry((turn.number, turn.seat)).or_default().prompt(encoder, turn.prompt)
    }

    /// What a seat of a game said, as a text and its tokens.
    ///
    /// # Errors
    /// Tokens that the tokenizer cannot decode.
    pub(crate) fn said(
        &mut self,
        encoder: &PromptEncoder,
        of: (usize, Seat),
        text: &str,
        ids: &[u32],
    ) -> spag_chat::Result<()> {
        self.0.entry(of).or_default().said(encoder.tokenizer(), text, ids.to_vec())
    }

    /// Forgets all games.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
