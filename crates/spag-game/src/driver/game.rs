//! One game: its specification, and its state while it is played.

use spag_io::TurnPrompt;

use super::PlayConfig;
use super::sink::{FailedGame, FinishedGame};
use crate::episode::{Episode, Role, Utterance};
use crate::error::Result;
use crate::generation::TokenRecords;
use crate::judge::{JudgeKind, Referee};
use crate::outcome::Verdict;
use crate::player::{Said, TurnFailure, TurnRequest};
use crate::prompts::UtteranceRule;

/// A game to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GameSpec {
    /// Its number, unique among the games played at the same time.
    pub game: usize,
    /// The word that the attacker is given.
    pub target_word: String,
    /// Turns after which an undecided game is tied.
    pub max_turns: usize,
    /// Seed of all draws in the game.
    pub seed: u64,
}

/// What happens once a game is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDecision {
    /// The game ends.
    #[default]
    Stop,
    /// The game is played to its last turn. The verdict does not change.
    PlayOn,
    /// As in the reference, whatever was decided: the game ends when an utterance of the defender contains "I know the
    /// word" in any case, even if that decides nothing, or at its last turn. Verdicts and samples are those of
    /// [`AfterDecision::Stop`], unless such an utterance ends a game that would have been decided later.
    UntilGuess,
}

/// What ends a game of [`AfterDecision::UntilGuess`], in lower case.
const GUESS: &str = "i know the word";

/// The seed of a game, mixed so that the seeds of consecutive games are unrelated.
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

/// A game in progress.
#[derive(Debug)]
pub(super) struct RunningGame {
    spec: GameSpec,
    pub(super) episode: Episode,
    referee: Referee,
    decided: Option<Verdict>,
}

/// The state of a game after an utterance.
pub(super) enum Step {
    Running(RunningGame),
    Finished(FinishedGame),
}

impl RunningGame {
    pub(super) fn new(spec: GameSpec, judge: JudgeKind) -> Result<Self> {
        let referee = Referee::new(judge, &spec.target_word)?;
        let episode = Episode::new(spec.target_word.clone(), spec.max_turns);
        Ok(Self { spec, episode, referee, decided: None })
    }

    pub(super) fn number(&self) -> usize {
        self.spec.game
    }

    /// The next turn; `prompt` is the game so far as the player to move sees it.
    pub(super) fn turn<'a>(&'a self, prompt: &'a TurnPrompt, utterances: UtteranceRule) -> TurnRequest<'a> {
        TurnRequest {
            game: self.spec.game,
            role: self.episode.next_role(),
            episode: &self.episode,
            prompt,
            utterances,
            game_seed: self.spec.seed,
            seed: game_seed(self.spec.seed, self.episode.history.len()),
        }
    }

    /// Appends the utterance of the player to move, and judges it.
    pub(super) fn push_utterance(mut self, said: Said, config: &PlayConfig) -> Step {
        let Said { text, generation } = said;
        let role = self.episode.next_role();
        if self.decided.is_none() {
            let history_length = self.episode.history.len() + 1;
            self.decided = self.referee.rule(role, &text).map(|outcome| Verdict { outcome, history_length });
        }
        let stops = match config.after_decision {
            AfterDecision::Stop => self.decided.is_some(),
            AfterDecision::PlayOn => false,
            AfterDecision::UntilGuess => role == Role::Defender && text.to_lowercase().contains(GUESS),
        };
        let generation = generation.filter(|_| config.tokens == TokenRecords::Kept);
        self.episode.history.push(Utterance { generation, ..Utterance::new(role, text) });
        let is_last = self.episode.history.len() >= self.spec.max_turns.saturating_mul(2);
        if !is_last && !stops {
            return Step::Running(self);
        }
        let Self { spec, episode, referee, decided } = self;
        let verdict = decided.unwrap_or_else(|| referee.judge(&episode.view()));
        Step::Finished(FinishedGame { game: spec.game, seed: spec.seed, episode, verdict })
    }

    /// Ends the game because the player to move has no utterance.
    pub(super) fn fail(self, failure: TurnFailure) -> FailedGame {
        let role = self.episode.next_role();
        FailedGame { game: self.spec.game, seed: self.spec.seed, episode: self.episode, role, failure }
    }
}
