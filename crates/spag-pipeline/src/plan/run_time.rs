//! How long the games and the trainings of a run take: as measured on this machine, or at least.

use crate::{PlannedStage, SAMPLES_PER_GAME};
use spag_io::ReasoningFormat;
use spag_model::generate::GenerationMemory;
use spag_model::params::Layout;

use super::assumptions::Assumptions;
use super::of_run::{CONTEXT, Planner};
use crate::error::Result;

/// Utterances of a game: an assumption.
pub(super) const UTTERANCES: f64 = 6.0;
/// Tokens of an utterance, if the maximum is not lower: an assumption.
const UTTERANCE_TOKENS: usize = 50;
/// A training step and the reference pass, forward alone, in training steps.
const REFERENCE_PASS: f64 = 4.0 / 3.0;

impl Planner<'_> {
    /// Utterances of a game.
    pub(super) fn utterances(&self) -> f64 {
        self.measure.map_or(UTTERANCES, |measure| measure.utterances)
    }

    /// Tokens that a stage trains on: those of its samples, or as many as these may have.
    pub(super) fn trained_tokens(&self, stage: &PlannedStage) -> Option<f64> {
        let training = stage.training.as_ref()?;
        let config = &training.settings.config;
        let Some(measure) = self.measure else { return Some((training.samples * config.max_length) as f64) };
        if training.on_policy {
            // Both seats learn from all that they said, each in one sequence.
            let said = measure.utterances * measure.utterance_tokens;
            let sequences = 2.0 * measure.sample_tokens + said;
            let passes = self.config.online.as_ref().map_or(1, |online| online.ppo_epochs);
            return Some((stage.games * passes) as f64 * sequences);
        }
        let samples = training.samples as f64 * measure.samples / SAMPLES_PER_GAME as f64;
        Some(samples * measure.sample_tokens * config.num_train_epochs)
    }

    pub(super) fn utterance_tokens(&self) -> f64 {
        let said = self.config.self_play.length.max_new_tokens.min(UTTERANCE_TOKENS);
        // A player that thinks is assumed to use up its budget.
        let thought = match self.config.reasoning.reasoning {
            Some(ReasoningFormat::Think | ReasoningFormat::Boxed) => {
                self.config.reasoning.tokens(self.model.architecture.max_position_embeddings)
            }
            Some(ReasoningFormat::None | ReasoningFormat::Auto) | None => 0,
        };
        let assumed = (said + thought) as f64;
        self.measure.map_or(assumed, |measure| measure.utterance_tokens)
    }

    /// As measured; or else a roofline: each step reads all weights and the keys and values of all games. On a CPU, the products
    /// of all tokens.
    pub(super) fn seconds_of_play(&self, games: usize, tokens: f64) -> Option<f64> {
        if let Some(measure) = self.measure {
            return Some(games as f64 * measure.utterances * measure.seconds_per_utterance / self.ranks as f64);
        }
        if let Some(flops) = self.cpu_flops {
            return Some(tokens * 2.0 * self.multiplied() / flops);
        }
        let figures = self.gpu?;
        let assumed = Assumptions::new(self.network());
        let dtype = self.playing_dtype();
        let games = self.config.self_play.games_in_flight() as f64;
        let weights = Layout::new(&self.model.architecture).len() as f64 * dtype.bytes() as f64;
        let cached = games * CONTEXT * GenerationMemory::per_token(self.model, dtype) as f64;
        let step = (weights + cached) / (figures.memory_bytes * assumed.memory_share);
        Some(tokens / (games / step * self.ranks as f64))
    }

    /// Weights that a token is multiplied by: all but the embedding's.
    fn multiplied(&self) -> f64 {
        let layout = Layout::new(&self.model.architecture);
        let embedding = layout.layers.first().filter(|_| !self.model.architecture.is_tied());
        (layout.len() - embedding.map_or(0, |layer| layer.len)) as f64
    }

    pub(super) fn seconds_of_training(&self, stage: &PlannedStage) -> Result<Option<f64>> {
        let Some(training) = &stage.training else { return Ok(None) };
        if let Some(measure) = self.measure {
            let tokens = self.trained_tokens(stage).unwrap_or(0.0);
            return Ok(Some(tokens * REFERENCE_PASS * measure.seconds_per_token / self.ranks as f64));
        }
        if let Some(flops) = self.cpu_flops {
            let config = &training.settings.config;
            let samples = config.per_device_train_batch_size * config.gradient_accumulation_steps * self.ranks;
            let tokens = (training.steps * samples.min(training.samples)) as f64 * config.max_length as f64;
            // Forward, and twice as much backward.
            return Ok(Some(tokens * 6.0 * self.multiplied() / flops));
        }
        let choice = self.choice(training)?;
        Ok(choice.map(|choice| training.steps as f64 * choice.time.step))
    }
}
