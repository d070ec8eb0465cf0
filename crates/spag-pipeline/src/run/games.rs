//! Playing a set of games into a file, and going on where a killed run stopped.
//!
//! Every finished game is appended at once. Games are independent of each other, each with its own seed, so going on
//! means playing those that are missing; in the end the file is sorted, and equals that of a run never interrupted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use spag_game::{
    AfterDecision, Episode, FinishedGame, GameSpec, JsonlAppender, Outcome, PlayConfig, PromptSet, Seats, game_seed,
    play_games,
};
use spag_train::Progress;

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::files::write_jsonl;

/// Games to be played: which, and where to.
#[derive(Clone, Debug)]
pub(crate) struct GameSet<'a> {
    /// The JSONL file that gets them.
    pub(crate) path: PathBuf,
    /// Target words, taken in turn.
    pub(crate) words: &'a [String],
    /// How many games.
    pub(crate) count: usize,
    /// Seed that the games' seeds come from.
    pub(crate) seed: u64,
}

/// The part of a [`GameSet`] that lies in its file already.
#[derive(Debug)]
pub(crate) struct Begun<'a> {
    set: GameSet<'a>,
    file: JsonlAppender<Episode>,
    done: BTreeMap<usize, Episode>,
}

impl<'a> GameSet<'a> {
    /// Reads what was played before; a line torn by a kill is dropped from the file.
    pub(crate) fn begin(self) -> Result<Begun<'a>> {
        let (file, episodes) = JsonlAppender::<Episode>::resume(&self.path)?;
        let mut done = BTreeMap::new();
        for (index, episode) in episodes.into_iter().enumerate() {
            done.insert(self.identify(index + 1, &episode)?, episode);
        }
        Ok(Begun { set: self, file, done })
    }

    fn spec(&self, game: usize, max_turns: usize) -> Option<GameSpec> {
        let target_word = self.words.get(game % self.words.len().max(1))?.clone();
        Some(GameSpec { game, target_word, max_turns, seed: game_seed(self.seed, game) })
    }

    /// The game's number, after checking that it is one of this set.
    fn identify(&self, row: usize, episode: &Episode) -> Result<usize> {
        let number = |key| episode.extra.get(key).and_then(Value::as_u64);
        let game = number("game").and_then(|game| usize::try_from(game).ok());
        let spec = game.filter(|game| *game < self.count).and_then(|game| self.spec(game, episode.max_turns));
        match spec {
            Some(spec) if number("seed") == Some(spec.seed) && episode.target_word == spec.target_word => Ok(spec.game),
            _ => Err(Error::DamagedRun {
                path: self.path.clone(),
                message: format!("row {row} is no game of this run (its `game`, `seed` or `target_word` is another)"),
            }),
        }
    }
}

impl Begun<'_> {
    /// Whether anything is left to play.
    pub(crate) fn is_complete(&self) -> bool {
        self.done.len() >= self.set.count
    }

    /// Plays the missing games.
    pub(crate) fn play(
        &mut self,
        seats: Seats<'_>,
        prompts: &PromptSet,
        config: &RunConfig,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let missing: Vec<GameSpec> = (0..self.set.count)
            .filter(|game| !self.done.contains_key(game))
            .filter_map(|game| self.set.spec(game, config.max_turns))
            .collect();
        let play_config = PlayConfig {
            judge: config.judge,
            games_in_flight: config.self_play.games_in_flight,
            after_decision: AfterDecision::Stop,
        };
        let mut score = Score::default();
        let before = self.done.len();
        progress.begin("games", self.set.count as u64);
        progress.advance(before as u64, "");
        let mut played = 0;
        play_games(missing, seats, prompts, &play_config, &mut |game: FinishedGame| {
            score.add(game.verdict.outcome);
            let mut episode = game.episode;
            episode.extra.insert("game".to_owned(), Value::from(game.game));
            episode.extra.insert("seed".to_owned(), Value::from(game.seed));
            self.file.append(&episode)?;
            self.done.insert(game.game, episode);
            played += 1;
            progress.advance((before + played) as u64, &score.describe());
            Ok(())
        })?;
        progress.end();
        Ok(())
    }

    /// Sorts the file and hands out its games in order.
    pub(crate) fn finish(self) -> Result<Vec<Episode>> {
        let episodes: Vec<Episode> = self.done.into_values().collect();
        write_jsonl(&self.set.path, &episodes)?;
        Ok(episodes)
    }
}

/// Who wins, for the note beside the bar.
#[derive(Debug, Default)]
struct Score {
    attacker: usize,
    defender: usize,
    games: usize,
}

impl Score {
    fn add(&mut self, outcome: Outcome) {
        self.games += 1;
        match outcome {
            Outcome::AttackerWins => self.attacker += 1,
            Outcome::DefenderWins => self.defender += 1,
            Outcome::AttackerBreaksRules | Outcome::Tie => {}
        }
    }

    fn describe(&self) -> String {
        let percent = |count: usize| 100.0 * count as f64 / self.games.max(1) as f64;
        format!("attacker {:.0}%, defender {:.0}%", percent(self.attacker), percent(self.defender))
    }
}
