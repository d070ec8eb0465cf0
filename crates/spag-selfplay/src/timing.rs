//! A benchmark of self-play with a fixed amount of work.

use std::time::{Duration, Instant};

use spag_game::{AfterDecision, FinishedGame, GameSpec, PlayConfig, PromptSet, Rules, Seats, game_seed, play_games};
use spag_model::generate::{GenerationStats, Sampling};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig};

use crate::error::Result;
use crate::limits;
use crate::model_player::ModelPlayer;

spag_io::settings! {
    /// The work of the benchmark.
    #[derive(Copy, clap::Args)]
    pub flags TimingConfig {
        /// Number of games.
        #[arg(value_name = "N")]
        pub games: usize [limits::GAMES] = 64;
        /// Number of turns in each game. No game ends early.
        #[arg(value_name = "N")]
        pub turns: usize [limits::TURNS] = 5;
        /// Number of tokens in every utterance.
        #[arg(value_name = "N")]
        pub new_tokens: usize [limits::NEW_TOKENS] = 48;
        /// Seed of the games.
        #[arg(value_name = "N")]
        pub seed: u64 = 0;
    }
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
    sampling: Sampling,
    config: TimingConfig,
) -> Result<Timing> {
    let generation = GenerationConfig {
        max_new_tokens: config.new_tokens,
        min_new_tokens: config.new_tokens,
        sampling,
        ..GenerationConfig::default()
    };
    let mut player = ModelPlayer::load(checkpoint.clone(), generation, engine)?;
    let play = PlayConfig { games_in_flight: engine.max_running, ..PlayConfig::default() };
    let game = Rules { after_decision: AfterDecision::PlayOn, ..Rules::default() }.game(prompts);
    let specs = (0..config.games).map(|number| GameSpec {
        number,
        item: format!("word{number}"),
        max_turns: config.turns,
        seed: game_seed(config.seed, number),
        sampling_seed: None,
    });
    let began = Instant::now();
    play_games(&game, specs, Seats::SelfPlay(&mut player), &play, &mut |_: FinishedGame| Ok(()))?;
    let all = began.elapsed();
    let stats = player.stats();
    let times = stats.times;
    let inside = times.tokenizer + times.schedule + times.prefill + times.decode + times.sampling;
    Ok(Timing { seconds: all.as_secs_f64(), outside: all.saturating_sub(inside), stats })
}
