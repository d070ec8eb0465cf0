//! How fast a model plays against itself: the same work for every engine.

use std::time::{Duration, Instant};

use spag_game::{AfterDecision, FinishedGame, GameSpec, PlayConfig, PromptSet, Seats, game_seed, play_games};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig, GenerationStats, Sampling};

use crate::error::Result;
use crate::model_player::ModelPlayer;

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimingConfig {
    /// Games.
    pub games: usize,
    /// Games at a time.
    pub batch: usize,
    /// Turns of every game; none ends early.
    pub turns: usize,
    /// Tokens of every utterance, no more and no fewer.
    pub new_tokens: usize,
    /// Sampling temperature.
    pub temperature: f64,
    /// Seed of the games.
    pub seed: u64,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// From the first prompt to the last referee's word; loading and packing the model aside.
    pub seconds: f64,
    /// Prompts, referee and all that is not the engine.
    pub outside: Duration,
    /// What the engine did.
    pub stats: GenerationStats,
}

/// Plays games of a fixed size, so that a random checkpoint gives the same work to every engine.
///
/// # Errors
/// Settings that the model cannot generate with, or an error of the device.
pub fn time_play(
    checkpoint: &Checkpoint,
    prompts: &PromptSet,
    engine: EngineConfig,
    config: TimingConfig,
) -> Result<Timing> {
    let generation = GenerationConfig {
        max_new_tokens: config.new_tokens,
        min_new_tokens: config.new_tokens,
        sampling: Sampling::at_temperature(config.temperature),
        ..GenerationConfig::default()
    };
    let mut player = ModelPlayer::load(checkpoint, generation, engine)?;
    let play =
        PlayConfig { games_in_flight: config.batch, after_decision: AfterDecision::PlayOn, ..PlayConfig::default() };
    let specs = (0..config.games).map(|game| GameSpec {
        game,
        target_word: format!("word{game}"),
        max_turns: config.turns,
        seed: game_seed(config.seed, game),
    });
    let began = Instant::now();
    play_games(specs, Seats::SelfPlay(&mut player), prompts, &play, &mut |_: FinishedGame| Ok(()))?;
    let all = began.elapsed();
    let stats = player.stats();
    let times = stats.times;
    let inside = times.tokenizer + times.schedule + times.prefill + times.decode + times.sampling;
    Ok(Timing { seconds: all.as_secs_f64(), outside: all.saturating_sub(inside), stats })
}
