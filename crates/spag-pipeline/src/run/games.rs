//! The games of a stage: a resumable job with one result file.

use std::path::PathBuf;
use std::time::Instant;

use spag_game::{PlayConfig, Seats};
use spag_io::Progress;
use spag_run::{PlayedGames, Provenance, StageDone};
use spag_selfplay::{
    Finished, GameStats, JobFiles, JobObserver, OpenJob, PlayJob, PlayerPair, Ranks, SoFar, games_on_cycled_words,
};

use super::context::RunContext;
use super::run_games::OpenGame;
use super::stage_folder::StageFolder;
use crate::error::{Error, Result};

/// Games to be played on some words.
#[derive(Clone)]
pub(super) struct GameSet<'a> {
    /// The game that is played.
    pub(super) game: &'a OpenGame,
    /// The JSONL file of all games.
    pub(super) path: PathBuf,
    /// Target words, which are cycled.
    pub(super) words: &'a [String],
    /// Number of games.
    pub(super) count: usize,
    /// The seed from which the seeds of the games are derived.
    pub(super) seed: u64,
    /// The players, as noted in the record.
    pub(super) players: String,
    /// What the progress says of the games.
    pub(super) note: Note,
}

/// What the progress says of games that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// The share of both seats' wins.
    Wins,
    /// The share of games that imitation learns from, and of both seats' wins.
    Accepted,
}

/// A [`GameSet`] with the record of this rank open.
pub(super) struct OpenGameSet<'a> {
    job: OpenJob<'a>,
    games_in_flight: usize,
    note: Note,
}

impl<'a> GameSet<'a> {
    /// The part of a game of a stage's games, on the words of the training, in the file of episodes of `folder`. `part` names
    /// their seed.
    pub(super) fn of_stage(
        run: RunContext<'a>,
        game: &'a OpenGame,
        folder: &StageFolder,
        (part, count): (&str, Option<usize>),
        players: String,
        done: &mut StageDone,
    ) -> Self {
        let words = &game.words.training;
        let seed = run.seed(folder, part, done);
        let count = game.part_of(run.config, count.unwrap_or(words.len()));
        Self { game, path: folder.episodes(), words, count, seed, players, note: Note::Wins }
    }

    /// Plays the missing games and writes the file of all games. `play` is only called if games are missing; it opens the
    /// players and calls [`OpenGameSet::play`] or [`OpenGameSet::play_pair`]. Returns the statistics of all games on rank 0.
    pub(super) fn complete(
        self,
        run: RunContext<'_>,
        done: &mut StageDone,
        play: impl FnOnce(&mut OpenGameSet<'_>) -> Result<()>,
    ) -> Result<Option<Box<GameStats>>> {
        done.timed("play", || {
            let RunContext { config, ranks, inputs, .. } = run;
            let turns = self.game.rules.turns(config.max_turns);
            let job = PlayJob {
                game: &*self.game.game,
                games: games_on_cycled_words(self.words, self.count, turns, self.seed),
                players: self.players,
                play: PlayConfig {
                    max_failed_in_a_row: config.self_play.max_failed_in_a_row,
                    tokens: config.self_play.record_tokens.into(),
                    ..PlayConfig::default()
                },
                files: JobFiles::ordered(&self.path),
                ranks: Ranks::Group { group: ranks.group.clone(), env: ranks.env.clone() },
            };
            let job = job.open()?;
            let games_in_flight = config.self_play.games_in_flight();
            let mut open = OpenGameSet { job, games_in_flight, note: self.note };
            if open.job.recorded() < open.job.total() {
                play(&mut open)?;
            }
            let this_run = open.job.run_stats();
            let finished = open.job.finish(&this_run)?;
            let stats = match finished {
                Finished::Written { missing: count @ 1.., failed, .. } => {
                    return Err(Error::GamesFailed { path: self.path, failed, count });
                }
                Finished::Written { stats, .. } => Some(stats),
                Finished::ByRankZero => None,
            };
            ranks.on_rank_0(|| {
                let wordings = vec![inputs.prompts.wordings().clone()];
                let games = vec![PlayedGames::new(self.seed, self.words)];
                Ok(Provenance { wordings, games }.write_of(&self.path)?)
            })?;
            Ok(stats)
        })
    }
}

impl OpenGameSet<'_> {
    /// Plays the missing games.
    pub(super) fn play(&mut self, seats: Seats<'_>, progress: &mut dyn Progress) -> Result<()> {
        let mut observer = self.begin(progress);
        self.job.play(seats, self.games_in_flight, &mut observer)?;
        observer.progress.end();
        Ok(())
    }

    /// Plays the missing games, as many at a time as the players can play.
    pub(super) fn play_pair(&mut self, players: &mut PlayerPair, progress: &mut dyn Progress) -> Result<()> {
        let mut observer = self.begin(progress);
        self.job.play_pair(players, &mut observer)?;
        observer.progress.end();
        Ok(())
    }

    fn begin<'p>(&self, progress: &'p mut dyn Progress) -> Observer<'p> {
        let known = self.job.recorded() as u64;
        progress.resume("games", self.job.total() as u64, known);
        Observer { progress, known, began: Instant::now(), note: self.note }
    }
}

/// Shows win rates and speed as the note of the progress.
struct Observer<'a> {
    progress: &'a mut dyn Progress,
    /// Games that were finished before.
    known: u64,
    began: Instant,
    note: Note,
}

impl JobObserver for Observer<'_> {
    fn game_ended(&mut self, so_far: SoFar<'_>) {
        let counts = so_far.stats.counts();
        let percent = |count: usize| 100.0 * count as f64 / (counts.games() as f64).max(1.0);
        let won = counts.labels().seats.map(|seat| format!("{seat} {:.0}%", percent(counts.rewarded_wins(seat))));
        let mut note = won.join(", ");
        if self.note == Note::Accepted {
            note.insert_str(0, &format!("accepted {:.1}%, ", percent(counts.won_by_the_rules())));
        }
        if so_far.new_tokens > 0 {
            let rate = so_far.new_tokens as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
            note.push_str(&format!(", {rate:.0} tokens/s"));
        }
        self.progress.advance(self.known + so_far.finished, &note);
    }
}
