//! A benchmark of self-play with a fixed amount of work.

use std::time::{Duration, Instant};

use spag_game::{AfterDecision, FinishedGame, GameSpec, PlayConfig, PromptSet, Rules, Seats, game_seed, play_games};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig, GenerationStats, Sampling};

use crate::error::Result;
use crate::model_player::ModelPlayer;

/// The work of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimingConfig {
    /// Games.
    pub games: usize,
    /// Games in flight.
    pub batch: usize,
    /// Turns of every game; no game ends early.
    pub turns: usize,
    /// Exact number of tokens of every utterance.
    pub new_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Seed of the games.
    pub seed: u64,
}

/// The result of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Duration of the games, without loading and packing the model.
    pub seconds: f64,
    /// Time outside of the engine: prompts and referee.
    pub outside: Duration,
    /// The work of the engine.
    pub stats: GenerationStats,
}

/// Plays games of a fixed size; the work is the same for every checkpoint of a shape, even with random weights.
///
/// # Errors
/// Invalid settings, or an error of the device.
pub fn time_play(
    checkpoint: &Checkpoint,
    prompts: &PromptSet,
    engine: EngineConfig,
    config: TimingConfig,
) -> Result<Timing> {
    let generation = GenerationConfig {
        max_new_tokens: config.new_tokens,
        min_new_tokens: config.new_tokens,
        sampling: config.sampling,
        ..GenerationConfig::default()
    };
    let mut player = ModelPlayer::load(checkpoint.clone(), generation, engine)?;
    let play = PlayConfig { games_in_flight: config.batch, ..PlayConfig::default() };
    let game = Rules { after_decision: AfterDecision::PlayOn, ..Rules::default() }.game(prompts);
    let specs = (0..config.games).map(|game| GameSpec {
        game,
        item: format!("word{game}"),
        max_turns: config.turns,
        seed: game_seed(config.seed, game),
    });
    let began = Instant::now();
    play_games(&game, specs, Seats::SelfPlay(&mut player), &play, &mut |_: FinishedGame| Ok(()))?;
    let all = began.elapsed();
    let stats = player.stats();
    let times = stats.times;
    let inside = times.tokenizer + times.schedule + times.prefill + times.decode + times.sampling;
    Ok(Timing { seconds: all.as_secs_f64(), outside: all.saturating_sub(inside), stats })
}
