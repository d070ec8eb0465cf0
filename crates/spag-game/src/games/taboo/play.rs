//! The game as it is played.

use std::ops::Range;

use rand::RngCore;
use serde_json::{Map, Value};
use spag_io::TurnPrompt;

use super::judge::{JudgeKind, Referee, RefereeCache};
use super::labels::{DEFENDER, LABELS, TIE, seat_at};
use super::prompts::PromptSet;
use crate::completion::UtteranceRule;
use crate::episode::{Episode, EpisodeView};
use crate::error::Result;
use crate::game::{Game, Judge, Match, Ruling};
use crate::labels::Labels;
use crate::seat::{SEATS, Seat};
use crate::spec::GameSpec;
use crate::verdict::Verdict;

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

/// The variants of the rules. The default is the paper's judge, and games that end when they are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which rules decide.
    pub judge: JudgeKind,
    /// What happens once a game is decided.
    pub after_decision: AfterDecision,
}

impl Rules {
    /// The game with these rules, in the wordings of `prompts`.
    pub fn game(self, prompts: &PromptSet) -> Taboo {
        Taboo { prompts: prompts.clone(), rules: self }
    }
}

/// Adversarial Taboo in the wordings of a prompt file. The item of a game is its target word. The default has the built-in
/// wordings and the default rules.
#[derive(Clone, Debug, Default)]
pub struct Taboo {
    /// The wordings.
    pub prompts: PromptSet,
    /// The rules.
    pub rules: Rules,
}

impl Taboo {
    /// The game with the default rules.
    pub fn new(prompts: &PromptSet) -> Self {
        Rules::default().game(prompts)
    }
}

impl Game for Taboo {
    fn labels(&self) -> &'static Labels {
        &LABELS
    }

    fn settings(&self) -> Map<String, Value> {
        Map::from_iter([("judge".to_owned(), self.rules.judge.to_string().into())])
    }

    fn record_keys(&self) -> Map<String, Value> {
        Map::new()
    }

    fn start(&self, spec: &GameSpec) -> Result<Box<dyn Match + '_>> {
        let referee = Referee::new(self.rules.judge, &spec.item)?;
        let (game, max_turns) = (self, spec.max_turns);
        Ok(Box::new(TabooMatch { game, referee, max_turns, said: 0, decided: None }))
    }

    fn judge(&self) -> Box<dyn Judge + '_> {
        Box::new(RefereeCache::new(self.rules.judge))
    }

    fn training_prompt(
        &self,
        episode: &EpisodeView<'_>,
        utterance: usize,
        mut rng: &mut dyn RngCore,
    ) -> Result<TurnPrompt> {
        Ok(self.prompts.training_prompt_at(episode, utterance, &mut rng))
    }

    fn marks(&self, episode: &Episode, utterance: usize) -> Result<Vec<Range<usize>>> {
        let Some(said) = episode.history.get(utterance) else { return Ok(Vec::new()) };
        Ok(Referee::new(self.rules.judge, &episode.item)?.deciding_parts(said.seat, &said.content))
    }
}

#[derive(Debug)]
struct TabooMatch<'a> {
    game: &'a Taboo,
    referee: Referee,
    max_turns: usize,
    /// Utterances so far.
    said: usize,
    decided: Option<Verdict>,
}

impl Match for TabooMatch<'_> {
    fn to_move(&self) -> Seat {
        seat_at(self.said)
    }

    fn prompt(&self, _: Seat, episode: &Episode) -> TurnPrompt {
        self.game.prompts.playing_prompt(&episode.history, &episode.item, episode.max_turns)
    }

    fn utterance_rule(&self) -> UtteranceRule {
        self.game.prompts.utterance_rule()
    }

    fn apply(&mut self, text: &str) -> Ruling {
        let seat = self.to_move();
        self.said += 1;
        if self.decided.is_none() {
            self.decided = self.referee.ending(seat, text).map(|ending| Verdict::of(ending, self.said));
        }
        let stops = match self.game.rules.after_decision {
            AfterDecision::Stop => self.decided.is_some(),
            AfterDecision::PlayOn => false,
            AfterDecision::UntilGuess => seat == DEFENDER && text.to_lowercase().contains(GUESS),
        };
        let is_last = self.said >= self.max_turns.saturating_mul(SEATS);
        if !is_last && !stops {
            return Ruling::ACCEPTED;
        }
        // The reference judges one utterance even if max_turns is 0.
        let limit = self.max_turns.saturating_mul(SEATS).max(1).min(self.said);
        Ruling::ended(self.decided.unwrap_or_else(|| Verdict::of(TIE, limit)))
    }
}
