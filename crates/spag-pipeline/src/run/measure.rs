//! What the games and the training of a run take on this machine: lengths are counted in some of the games to imitate, times
//! are those of some games and steps of the base model.

use std::sync::Arc;
use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use spag_chat::PromptEncoder;
use spag_dist::{LaunchEnv, Single};
use spag_game::{CollectedGames, Episode, PlayConfig, ScriptedPolicy, Seats, Verdict, play_games, read_episodes};
use spag_io::Silent;
use spag_model::checkpoint::{LoadOptions, check_checkpoint, load_config, load_model_with, load_tokenizer};
use spag_model::params::Layout;
use spag_run::Model;
use spag_selfplay::games_on_cycled_words;
use spag_train::{TimingConfig, time_steps};
use spag_world::{ScriptedAttacker, ScriptedDefender};

use super::context::{RankContext, RunContext, RunInputs};
use super::run_games::OpenGame;
use crate::config::{ImitationSource, RunConfig};
use crate::error::{Error, Result};

/// Games of the players to imitate, of each game of the run.
const COUNTED_GAMES: usize = 100;
/// Seconds that the timed games and the timed steps may take each, by the machine's FLOP/s.
const SECONDS: f64 = 3.0;
/// The fewest games that are timed.
const LEAST_GAMES: usize = 8;
/// Timed steps, with the untimed one before them.
const STEPS: usize = 3;

/// What a run's games are like, and what they and its training take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunMeasure {
    /// Utterances of a game: the mean of those of the players to imitate and of the base model.
    pub utterances: f64,
    /// Tokens of an utterance.
    pub utterance_tokens: f64,
    /// Samples of a game: the utterances of its winner.
    pub samples: f64,
    /// Tokens of a sample, with its prompt.
    pub sample_tokens: f64,
    /// Seconds of play for an utterance, of all games that are played at a time.
    pub seconds_per_utterance: f64,
    /// Seconds of training for a token.
    pub seconds_per_token: f64,
}

/// Measures a run on this machine, which reaches `flops` FLOP/s, in some seconds. `None` if the games to imitate are not there
/// to be counted, the model has no weights or tokenizer yet, or it is too large for a small measurement.
///
/// # Errors
/// Inputs that cannot be read, or an error of the device.
pub fn measure_run(config: &RunConfig, flops: f64) -> Result<Option<RunMeasure>> {
    // A folder with a configuration alone is planned too.
    let (Ok(_), Ok(tokenizer)) = (check_checkpoint(&config.base_model), load_tokenizer(&config.base_model)) else {
        return Ok(None);
    };
    let inputs = RunInputs::load(config, &mut Silent)?;
    let encoder = PromptEncoder::new(tokenizer);
    let mut lengths = Lengths::default();
    for game in &inputs.games {
        let Some(games) = imitated(config, &inputs, game)? else { return Ok(None) };
        lengths.add(game, &games, &encoder)?;
    }
    if lengths.samples == 0 || lengths.utterances == 0 {
        return Ok(None);
    }
    let ratio = |part: usize, whole: usize| part as f64 / whole as f64;
    let (utterances, samples) = (ratio(lengths.utterances, lengths.games), ratio(lengths.samples, lengths.games));
    let utterance_tokens = ratio(lengths.said_tokens, lengths.utterances).max(1.0);
    let sample_tokens = ratio(lengths.sample_tokens, lengths.samples).max(2.0);
    // Forward FLOPs of a token, and of a game: its prompts are computed once for both seats, its utterances token by token.
    let token = 2.0 * Layout::new(&load_config(&config.base_model)?.architecture).len() as f64;
    let games = SECONDS * flops / (token * (2.0 * sample_tokens + utterances * utterance_tokens));
    let batch = SECONDS * flops / (3.0 * token * sample_tokens * (STEPS + 1) as f64);
    if games < 1.0 || batch < 0.1 {
        return Ok(None);
    }
    let games = (games as usize).clamp(LEAST_GAMES, config.self_play.games_in_flight().max(LEAST_GAMES));
    let batch = (batch as usize).clamp(1, config.train.config.per_device_train_batch_size.max(1));
    let Some(timed) = time_games(config, &inputs, games, utterance_tokens.ceil() as usize)? else { return Ok(None) };
    // The models of the run learn to play as the imitated players do, from as the base model does.
    let utterances = (utterances + timed.utterances) / 2.0;
    let seconds_per_utterance = timed.seconds_per_utterance;
    let seconds_per_token = time_training(config, batch, sample_tokens.round() as usize)?;
    Ok(Some(RunMeasure {
        utterances,
        utterance_tokens,
        samples,
        sample_tokens,
        seconds_per_utterance,
        seconds_per_token,
    }))
}

/// Some games of the players to imitate; `None` if these are not known before the run.
fn imitated(config: &RunConfig, inputs: &RunInputs, game: &OpenGame) -> Result<Option<Vec<(Episode, Verdict)>>> {
    let turns = game.rules.turns(config.max_turns);
    let specs = games_on_cycled_words(&game.words.training, COUNTED_GAMES, turns, config.seed);
    let mut played = CollectedGames::default();
    let play = PlayConfig::default();
    for (source, _) in config.imitation.source.parts() {
        match (source, &config.imitation.file) {
            (ImitationSource::Scripted, _) => {
                let lexicon = inputs.lexicon()?;
                let (mut first, mut second) = (ScriptedAttacker::new(lexicon), ScriptedDefender::new(lexicon));
                play_games(&*game.game, specs, Seats::Versus([&mut first, &mut second]), &play, &mut played)?;
            }
            (ImitationSource::Random, _) => {
                let mut player = ScriptedPolicy::random_actions();
                play_games(&*game.game, specs, Seats::SelfPlay(&mut player), &play, &mut played)?;
            }
            (ImitationSource::Games, Some(file)) => {
                let mut judge = game.game.judge();
                let games = read_episodes(file)?.into_iter().take(COUNTED_GAMES);
                let judged = games.filter_map(|episode| {
                    let verdict = judge.judge(&episode.view()).ok()?;
                    Some((episode, verdict))
                });
                return Ok(Some(judged.collect()));
            }
            _ => continue,
        }
        return Ok(Some(played.finished.into_iter().map(|game| (game.episode, game.verdict)).collect()));
    }
    Ok(None)
}

/// Counts of games.
#[derive(Debug, Default)]
struct Lengths {
    games: usize,
    utterances: usize,
    said_tokens: usize,
    samples: usize,
    sample_tokens: usize,
}

impl Lengths {
    fn add(&mut self, game: &OpenGame, games: &[(Episode, Verdict)], encoder: &PromptEncoder) -> Result<()> {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        for (episode, verdict) in games {
            self.games += 1;
            for (at, said) in episode.history.iter().enumerate().take(verdict.history_length) {
                let tokens = encoder.tokenizer().encode(&said.content)?.len() + 1;
                self.utterances += 1;
                self.said_tokens += tokens;
                if verdict.rewarded_winner() == Some(said.seat) {
                    let prompt = game.game.training_prompt(&episode.view(), at, &mut rng)?;
                    self.samples += 1;
                    self.sample_tokens += encoder.encode(&prompt).map_err(spag_selfplay::Error::from)?.len() + tokens;
                }
            }
        }
        Ok(())
    }
}

/// Games of the base model.
struct TimedGames {
    utterances: f64,
    seconds_per_utterance: f64,
}

/// Times about `games` games of the base model, in which an utterance has this many tokens. `None` if it said nothing.
fn time_games(config: &RunConfig, inputs: &RunInputs, games: usize, tokens: usize) -> Result<Option<TimedGames>> {
    let mut config = config.clone();
    config.self_play.length.min_new_tokens = tokens;
    let ranks = RankContext::new(&LaunchEnv::single(), Arc::new(Single), &config)?;
    let run = RunContext { config: &config, ranks: &ranks, inputs, made: &[] };
    let checkpoint = run.load(&config.folder_of(Model::Base), config.self_play.dtype)?;
    let length = ("self_play.max_new_tokens", tokens);
    let (mut player, in_flight) = run.engine_player(checkpoint, config.self_play.sampling.sampling(), length)?;
    let play = PlayConfig { games_in_flight: in_flight, ..PlayConfig::default() };
    let (mut seconds, mut utterances, mut finished) = (0.0, 0, 0);
    for game in &inputs.games {
        let turns = game.rules.turns(config.max_turns);
        let count = games.div_ceil(inputs.games.len());
        let specs = games_on_cycled_words(&game.words.training, count, turns, config.seed);
        let mut played = CollectedGames::default();
        let began = Instant::now();
        play_games(&*game.game, specs, Seats::SelfPlay(&mut player), &play, &mut played)?;
        seconds += began.elapsed().as_secs_f64();
        finished += played.finished.len();
        utterances += played.finished.iter().map(|game| game.episode.history.len()).sum::<usize>();
    }
    Ok((utterances > 0).then(|| TimedGames {
        utterances: utterances as f64 / finished as f64,
        seconds_per_utterance: seconds / utterances as f64,
    }))
}

/// Seconds for a token in training steps on `batch` sequences of this many tokens.
fn time_training(config: &RunConfig, batch: usize, tokens: usize) -> Result<f64> {
    let train = &config.train.config;
    let architecture = load_config(&config.base_model)?.architecture;
    let timing = TimingConfig {
        batch,
        seq: tokens.clamp(2, architecture.max_position_embeddings.max(2)),
        steps: STEPS,
        warmup: 1,
        vocab_size: architecture.vocab_size,
        seed: config.seed,
        activations: train.activations(),
        accumulation: 1,
        optim_grad_dtype: train.optim_grad_dtype,
    };
    let options = LoadOptions { device: config.device.open(0)?.device().clone(), dtype: train.dtype() };
    let load = || Ok::<_, Error>(load_model_with(&config.base_model, &options)?);
    let step = time_steps(load, None, &timing)?;
    Ok(step.seconds / (timing.batch * timing.seq) as f64)
}
