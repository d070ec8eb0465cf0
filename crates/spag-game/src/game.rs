//! The seam between a game and everything that plays, records, counts and shows it.

use std::fmt;
use std::ops::Range;

use rand::RngCore;
use serde_json::{Map, Value};
use spag_io::TurnPrompt;

use crate::completion::UtteranceRule;
use crate::driver::GameSpec;
use crate::episode::{Episode, EpisodeView};
use crate::error::Result;
use crate::games::Message;
use crate::labels::Labels;
use crate::seat::Seat;
use crate::verdict::Verdict;

/// The rules and wordings of a game. A new game is one folder that implements it.
///
/// ```
/// use spag_game::{Game, PromptSet, Rules};
///
/// let prompts = PromptSet::default();
/// let game: Box<dyn Game> = Box::new(Rules::default().game(&prompts));
/// assert_eq!(game.labels().title, "Adversarial Taboo");
/// ```
pub trait Game {
    /// What files, reports and pages call its parts.
    fn labels(&self) -> &'static Labels;

    /// A game about the item of `spec`. All its draws follow from the seed of `spec`.
    ///
    /// # Errors
    /// There is no game about this item.
    fn start(&self, spec: &GameSpec) -> Result<Box<dyn Match + '_>>;

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

/// A game in progress: whose turn it is, what the seats know, and what an utterance does.
///
/// The driver appends every utterance to the episode after [`Match::apply`], also a refused one, whose reason it adds under
/// the key `refusal`. A seat may move several times in a row.
pub trait Match: fmt::Debug {
    /// The seat to move. Not called after the end.
    fn to_move(&self) -> Seat;

    /// The game so far as `seat` may know it: the rules, what only this seat knows, all messages to it since the start, and
    /// the refusal of its last utterance. `episode` holds what was said.
    fn prompt(&self, seat: Seat, episode: &Episode) -> TurnPrompt;

    /// How a model's completion of the prompt becomes an utterance.
    fn utterances(&self) -> UtteranceRule;

    /// What an utterance of the seat to move does.
    fn apply(&mut self, text: &str) -> Ruling;

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
}

/// The wordings of a game's prompts for training.
pub trait TrainingPrompts: Sync {
    /// The prompt for the utterance of an episode at a 0-based index, to train on: in a wording drawn from `rng`, or the
    /// messages of play.
    fn training_prompt(&self, episode: &EpisodeView<'_>, utterance: usize, rng: &mut dyn RngCore) -> TurnPrompt;
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
