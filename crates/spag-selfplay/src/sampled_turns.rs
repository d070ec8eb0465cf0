//! The tokens of a model's turns in the games that it plays, for training on exactly what it sampled.

use std::collections::HashMap;

use spag_chat::{PromptEncoder, PromptHistory};
use spag_game::{Generation, Seat, TurnRequest};
use spag_model::generate::{Distribution, FinishReason};

/// A turn of a model in a game, token by token.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledTurn {
    /// Whose turn it was.
    pub seat: Seat,
    /// The tokens of the prompt, as the engine read them.
    pub prompt: Vec<u32>,
    /// The tokens that follow, and their log-probabilities.
    pub generation: Generation,
    /// What each of them was drawn from; `None` if all were drawn from the model's own distribution.
    pub distributions: Option<Vec<Distribution>>,
    /// Why the last of them is the last.
    pub finish: FinishReason,
}

impl SampledTurn {
    /// ln p of each token under the distribution that it was drawn from, with the bits of a learner's on a CPU.
    pub fn log_probs(&self) -> Vec<f32> {
        let Generation { model_log_probs, sampling_log_probs, .. } = &self.generation;
        let Some(distributions) = &self.distributions else { return model_log_probs.clone() };
        let both = model_log_probs.iter().zip(sampling_log_probs).zip(distributions);
        both.map(|((model, drawn), distribution)| if distribution.is_of_model() { *model } else { *drawn }).collect()
    }

    /// The sampled tokens that are the utterance: without a token that ended it. `None` if the text was cut, so that no tokens
    /// are the text.
    fn utterance(&self) -> Option<&[u32]> {
        let ids = &self.generation.token_ids;
        match self.finish {
            FinishReason::Eos | FinishReason::StopToken => ids.split_last().map(|(_, ids)| ids),
            FinishReason::Length => Some(ids),
            FinishReason::StopString => None,
        }
    }
}

/// The histories and turns of the games that are played.
#[derive(Default)]
pub(crate) struct SampledGames {
    histories: HashMap<(usize, Seat), PromptHistory>,
    turns: HashMap<usize, Vec<SampledTurn>>,
}

impl SampledGames {
    /// The tokens of a turn's prompt.
    pub(crate) fn prompt(&mut self, encoder: &PromptEncoder, turn: &TurnRequest<'_>) -> spag_chat::Result<Vec<u32>> {
        self.histories.entry((turn.number, turn.seat)).or_default().prompt(encoder, turn.prompt)
    }

    /// What was said in a turn of a game, as a text and token by token.
    ///
    /// # Errors
    /// Tokens that the tokenizer cannot decode.
    pub(crate) fn said(
        &mut self,
        encoder: &PromptEncoder,
        game: usize,
        text: &str,
        turn: SampledTurn,
    ) -> spag_chat::Result<()> {
        if let Some(ids) = turn.utterance() {
            let history = self.histories.entry((game, turn.seat)).or_default();
            history.said(encoder.tokenizer(), text, ids.to_vec())?;
        }
        self.turns.entry(game).or_default().push(turn);
        Ok(())
    }

    /// Takes the turns of a game, and forgets its histories.
    pub(crate) fn take(&mut self, game: usize) -> Vec<SampledTurn> {
        self.histories.retain(|(of, _), _| *of != game);
        self.turns.remove(&game).unwrap_or_default()
    }
}
