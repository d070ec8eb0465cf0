//! The seam between a game and everything that plays, records, counts and shows it.

use std::fmt;
use std::ops::Range;

use rand::RngCore;
use serde_json::{Map, Value};
use spag_io::TurnPrompt;

use crate::completion::UtteranceRule;
use crate::episode::{Episode, EpisodeView, GAME_NAME, GAME_OPTIONS};
use crate::error::Result;
use crate::failure::TurnFailure;
use crate::labels::Labels;
use crate::message::Message;
use crate::replay::{self, Replay};
use crate::seat::Seat;
use crate::spec::GameSpec;
use crate::verdict::Verdict;

/// The rules and wordings of a game. A new game is one folder that implements it.
///
/// ```
/// use spag_game::{Game, Taboo};
///
/// let game: Box<dyn Game> = Box::new(Taboo::default());
/// assert_eq!(game.labels().title, "Adversarial Taboo");
/// ```
pub trait Game: fmt::Debug + Send + Sync {
    /// What files, reports and pages call its parts.
    fn labels(&self) -> &'static Labels;

    /// What the game counts for each seat beside who wins, as chips: [`Verdict::amounts`]. Nothing by default.
    fn amounts(&self) -> Option<&'static str> {
        None
    }

    /// The settings that its verdicts depend on, by their names, for records and pages. None by default.
    fn settings(&self) -> Map<String, Value> {
        Map::new()
    }

    /// What names the game in its records and samples: `game_name` and, if it has settings, `game_options`.
    ///
    /// Adversarial Taboo has none: its files are those of the reference.
    fn record_keys(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert(GAME_NAME.into(), self.labels().name.into());
        let settings = self.settings();
        if !settings.is_empty() {
            keys.insert(GAME_OPTIONS.into(), settings.into());
        }
        keys
    }

    /// A game about the item of `spec`. All its draws follow from the seed of `spec`.
    ///
    /// # Errors
    /// There is no game about this item.
    fn start(&self, spec: &GameSpec) -> Result<Box<dyn Match + '_>>;

    /// What judges recorded games. By default they are played again, utterance by utterance, from their items and seeds.
    fn judge(&self) -> Box<dyn Judge + '_> {
        Box::new(Replay(self))
    }

    /// The prompt for the utterance of a recorded game at a 0-based index, to train on. By default that of play; a game may
    /// draw another wording from `rng`.
    ///
    /// # Errors
    /// The episode is not one of this game.
    fn training_prompt(
        &self,
        episode: &EpisodeView<'_>,
        utterance: usize,
        rng: &mut dyn RngCore,
    ) -> Result<TurnPrompt> {
        let _ = rng;
        replay::prompt(self, episode, utterance)
    }

    /// The parts of an utterance that a reader should see, as byte ranges in the order of the text: those that decide the
    /// game. None by default.
    ///
    /// # Errors
    /// The episode is not one of this game.
    fn marks(&self, episode: &Episode, utterance: usize) -> Result<Vec<Range<usize>>> {
        let _ = (episode, utterance);
        Ok(Vec::new())
    }
}

impl Episode {
    /// Whether the episode names this game with these options. One without a name is of Adversarial Taboo.
    pub fn is_of(&self, game: &dyn Game) -> bool {
        let keys = game.record_keys();
        [GAME_NAME, GAME_OPTIONS].into_iter().all(|key| self.extra.get(key) == keys.get(key))
    }
}

/// A game in progress: whose turn it is, what the seats know, and what an utterance does.
///
/// The driver appends every utterance to the episode after [`Match::apply`], also a refused one, whose reason it adds under
/// the key `refusal`. A seat may move several times in a row.
pub trait Match: fmt::Debug + Send {
    /// The seat to move. Not called after the end.
    fn to_move(&self) -> Seat;

    /// The game so far as `seat` may know it: the rules, what only this seat knows, all messages to it since the start, and
    /// the refusal of its last utterance. `episode` holds what was said.
    fn prompt(&self, seat: Seat, episode: &Episode) -> TurnPrompt;

    /// How a model's completion of the prompt becomes an utterance.
    fn utterance_rule(&self) -> UtteranceRule;

    /// What an utterance of the seat to move does.
    fn apply(&mut self, text: &str) -> Ruling;

    /// What it does that the seat to move says nothing: its completion was reasoning alone. By default as an empty utterance; games
    /// that refuse actions refuse it as no action at all.
    fn apply_nothing(&mut self) -> Ruling {
        self.apply("")
    }

    /// All messages to the players since the start, if the game keeps them.
    fn messages(&self) -> &[Message] {
        &[]
    }

    /// What both seats may know, as the fields of a JSON object.
    fn public_state(&self) -> Map<String, Value> {
        Map::new()
    }

    /// What one seat alone knows, as the fields of a JSON object.
    fn private_state(&self, seat: Seat) -> Map<String, Value> {
        let _ = seat;
        Map::new()
    }

    /// The texts of all legal actions of the seat to move, if the game has a list of them.
    fn legal_actions(&self) -> Option<Vec<String>> {
        None
    }

    /// Keys that the record of the game needs beside its utterances and its seed, once it has ended. None by default.
    fn record(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Why the game cannot go on, if it depends on something outside of this program that failed. The driver then ends it as
    /// a failed game, and no method but [`Match::to_move`] is called.
    fn fault(&self) -> Option<TurnFailure> {
        None
    }
}

/// Judges recorded games, one after the other. May keep what it knows of their items.
pub trait Judge: Send {
    /// How a game ended. Utterances after the deciding one do not count.
    ///
    /// # Errors
    /// The episode is not one of this game.
    fn judge(&mut self, episode: &EpisodeView<'_>) -> Result<Verdict>;
}

/// What an utterance did to a game.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruling {
    /// Why it was refused; the same seat moves again unless the game ended.
    pub refusal: Option<Refusal>,
    /// The end of the game.
    pub verdict: Option<Verdict>,
}

impl Ruling {
    /// The utterance is accepted and the game goes on.
    pub const ACCEPTED: Self = Self { refusal: None, verdict: None };

    /// The utterance is refused and the game goes on.
    pub fn refused(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), verdict: None }
    }

    /// The utterance ends the game.
    pub fn ended(verdict: Verdict) -> Self {
        Self { refusal: None, verdict: Some(verdict) }
    }
}

/// Why an utterance is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No action was found in the text.
    Format,
    /// The action is not allowed now.
    Illegal,
}

impl Refusal {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Illegal => "illegal",
        }
    }
}
