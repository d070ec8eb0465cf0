//! A language model at the table.

use std::sync::Arc;

use spag_game::{Patience, Player, PlayerError, Reply, TurnRequest};
use spag_model::{Checkpoint, GenerationConfig, GenerationStats, Generator, Request};

use crate::error::Result;

/// A model that answers turn requests: the bridge from the game, which knows no tokens, to the generator, which knows
/// no games.
///
/// Each reply is drawn from its request's own seed, so a game goes the same way however many others run beside it.
pub struct ModelPlayer {
    generator: Generator,
    /// Turns taken on, with the number of their game.
    open: Vec<(usize, Request)>,
    cut_prompts: usize,
}

impl ModelPlayer {
    /// A player with room for `slots` games at a time.
    ///
    /// # Errors
    /// Settings that the model cannot generate with.
    pub fn new(checkpoint: Arc<Checkpoint>, config: GenerationConfig, slots: usize) -> Result<Self> {
        Ok(Self { generator: Generator::new(checkpoint, config, slots)?, open: Vec::new(), cut_prompts: 0 })
    }

    /// What its generator has done so far.
    pub fn stats(&self) -> GenerationStats {
        self.generator.stats()
    }

    /// Prompts that were too long and lost their beginning.
    pub fn cut_prompts(&self) -> usize {
        self.cut_prompts
    }
}

impl Player for ModelPlayer {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        self.open.push((turn.game, Request { prompt: turn.prompt.to_owned(), seed: turn.seed }));
        Ok(())
    }

    /// Generates all that was submitted.
    fn poll(&mut self, _: Patience) -> Result<Vec<Reply>, PlayerError> {
        let (games, requests): (Vec<usize>, Vec<Request>) = self.open.drain(..).unzip();
        let completions = self.generator.generate(&requests).map_err(PlayerError::caused_by)?;
        self.cut_prompts += completions.iter().filter(|completion| completion.cut_tokens > 0).count();
        let replies = games.into_iter().zip(completions);
        Ok(replies.map(|(game, completion)| Reply { game, said: Ok(completion.text) }).collect())
    }
}
