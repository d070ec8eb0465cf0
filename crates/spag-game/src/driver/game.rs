//! One game: what it is, how it goes on, and how it ends.

use crate::episode::{Episode, Role};
use crate::error::Result;
use crate::judge::{JudgeKind, Referee};
use crate::outcome::Verdict;
use crate::player::{TurnFailure, TurnRequest};

/// A game to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GameSpec {
    /// Its number; no two games that run at the same time have the same.
    pub game: usize,
    /// The word that the attacker is given.
    pub target_word: String,
    /// Turns after which it is tied.
    pub max_turns: usize,
    /// Seed of every draw in it.
    pub seed: u64,
}

/// What happens once a game is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDecision {
    /// It stops at once.
    #[default]
    Stop,
    /// It is played on to its last turn; the verdict stays.
    PlayOn,
}

/// A game that has been played to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedGame {
    /// Its number.
    pub game: usize,
    /// Its seed.
    pub seed: u64,
    /// Who said what.
    pub episode: Episode,
    /// How it ended.
    pub verdict: Verdict,
}

/// A game that could not be played to its end, since a player gave no utterance. It counts for nobody: no loss, no tie.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedGame {
    /// Its number.
    pub game: usize,
    /// Its seed.
    pub seed: u64,
    /// What was said before.
    pub episode: Episode,
    /// Whose turn it was.
    pub role: Role,
    /// Why there is no utterance.
    pub failure: TurnFailure,
}

/// The seed of a game in a run: well mixed, so that neighbouring numbers share nothing.
pub fn game_seed(base_seed: u64, game: usize) -> u64 {
    mix(mix(base_seed) ^ (game as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A game that goes on.
#[derive(Debug)]
pub(super) struct RunningGame {
    spec: GameSpec,
    episode: Episode,
    referee: Referee,
    decided: Option<Verdict>,
}

/// Where a game stands after an utterance.
pub(super) enum Step {
    GoesOn(RunningGame),
    Over(FinishedGame),
}

impl RunningGame {
    pub(super) fn begin(spec: GameSpec, judge: JudgeKind) -> Result<Self> {
        let referee = Referee::new(judge, &spec.target_word)?;
        let episode = Episode::new(spec.target_word.clone(), spec.max_turns);
        Ok(Self { spec, episode, referee, decided: None })
    }

    pub(super) fn number(&self) -> usize {
        self.spec.game
    }

    pub(super) fn next_role(&self) -> Role {
        self.episode.next_role()
    }

    pub(super) fn episode(&self) -> &Episode {
        &self.episode
    }

    /// The next turn; `prompt` is the game so far in the playing wording.
    pub(super) fn turn<'a>(&'a self, prompt: &'a str) -> TurnRequest<'a> {
        TurnRequest {
            game: self.spec.game,
            role: self.next_role(),
            episode: &self.episode,
            prompt,
            game_seed: self.spec.seed,
            seed: game_seed(self.spec.seed, self.episode.history.len()),
        }
    }

    /// Takes the utterance of whose turn it is, and asks the referee.
    pub(super) fn hear(mut self, text: String, after: AfterDecision) -> Step {
        let role = self.next_role();
        if self.decided.is_none() {
            let history_length = self.episode.history.len() + 1;
            self.decided = self.referee.rule(role, &text).map(|outcome| Verdict { outcome, history_length });
        }
        self.episode.push(role, text);
        let last = self.episode.history.len() >= self.spec.max_turns.saturating_mul(2);
        if !last && (self.decided.is_none() || after == AfterDecision::PlayOn) {
            return Step::GoesOn(self);
        }
        let Self { spec, episode, referee, decided } = self;
        let verdict = decided.unwrap_or_else(|| referee.judge(&episode.history, spec.max_turns));
        Step::Over(FinishedGame { game: spec.game, seed: spec.seed, episode, verdict })
    }

    /// There is no utterance of whose turn it is.
    pub(super) fn fail(self, failure: TurnFailure) -> FailedGame {
        let role = self.next_role();
        FailedGame { game: self.spec.game, seed: self.spec.seed, episode: self.episode, role, failure }
    }
}
