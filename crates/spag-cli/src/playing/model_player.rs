//! A checkpoint that plays.

use spag_game::{Player, PlayerError, TurnRequest};
use spag_model::{Generator, Request};

/// A [`Player`] whose replies are completions of the playing prompts, cut at EOS and otherwise as they come.
pub(crate) struct ModelPlayer {
    generator: Generator,
    cut_prompts: usize,
}

impl ModelPlayer {
    pub(crate) fn new(generator: Generator) -> Self {
        Self { generator, cut_prompts: 0 }
    }

    /// Prompts that were too long and lost their beginning.
    pub(crate) fn cut_prompts(&self) -> usize {
        self.cut_prompts
    }
}

impl Player for ModelPlayer {
    fn respond(&mut self, requests: &[TurnRequest<'_>]) -> Result<Vec<String>, PlayerError> {
        let requests: Vec<Request> =
            requests.iter().map(|turn| Request { prompt: turn.prompt.to_owned(), seed: turn.seed }).collect();
        let completions = self.generator.generate(&requests).map_err(PlayerError::caused_by)?;
        self.cut_prompts += completions.iter().filter(|completion| completion.cut_tokens > 0).count();
        Ok(completions.into_iter().map(|completion| completion.text).collect())
    }
}
