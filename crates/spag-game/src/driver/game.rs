//! One game while it is played.

use spag_io::TurnPrompt;

use super::sink::{FailedGame, FinishedGame};
use crate::episode::{Episode, REFUSAL, ReasoningEnd, SAMPLING_SEED, SEED, Utterance};
use crate::error::Result;
use crate::failure::TurnFailure;
use crate::game::{Game, Match};
use crate::generation::TokenRecords;
use crate::policy::{Said, TurnRequest};
use crate::seat::Seat;
use crate::spec::GameSpec;

/// A game in progress.
#[derive(Debug)]
pub(super) struct RunningGame<'g> {
    spec: GameSpec,
    episode: Episode,
    state: Box<dyn Match + 'g>,
}

/// The state of a game after an utterance.
pub(super) enum Step<'g> {
    Running(RunningGame<'g>),
    Finished(FinishedGame),
}

impl<'g> RunningGame<'g> {
    pub(super) fn new(spec: GameSpec, game: &'g dyn Game) -> Result<Self> {
        let state = game.start(&spec)?;
        let mut episode = Episode::new(spec.item.clone(), spec.max_turns);
        // A recorded game can be played again.
        episode.extra.insert(SEED.into(), spec.seed.into());
        episode.extra.extend(spec.sampling_seed.map(|seed| (SAMPLING_SEED.into(), seed.into())));
        episode.extra.extend(game.record_keys());
        Ok(Self { spec, episode, state })
    }

    pub(super) fn number(&self) -> usize {
        self.spec.number
    }

    pub(super) fn to_move(&self) -> Seat {
        self.state.to_move()
    }

    /// The game so far as the seat to move sees it.
    pub(super) fn prompt(&self) -> TurnPrompt {
        self.state.prompt(self.state.to_move(), &self.episode)
    }

    /// What the seat to move may choose from.
    pub(super) fn legal_actions(&self) -> Option<Vec<String>> {
        self.state.legal_actions()
    }

    /// The next turn, with [`RunningGame::prompt`] and [`RunningGame::legal_actions`].
    pub(super) fn turn<'a>(&'a self, prompt: &'a TurnPrompt, legal_actions: Option<&'a [String]>) -> TurnRequest<'a> {
        TurnRequest {
            number: self.spec.number,
            seat: self.state.to_move(),
            episode: &self.episode,
            prompt,
            utterance_rule: self.state.utterance_rule(),
            legal_actions,
            game_seed: self.spec.seed,
            seed: self.spec.utterance_seed(self.episode.history.len()),
        }
    }

    /// Applies the utterance of the seat to move, and appends it.
    pub(super) fn push_utterance(mut self, said: Said, tokens: TokenRecords) -> Step<'g> {
        let Said { text, reasoning, reasoning_end, generation } = said;
        let seat = self.state.to_move();
        let ruling = match reasoning_end {
            Some(ReasoningEnd::Unfinished) => self.state.apply_nothing(),
            Some(ReasoningEnd::Forced) | None => self.state.apply(&text),
        };
        let generation = generation.filter(|_| tokens == TokenRecords::Kept);
        let mut utterance = Utterance { reasoning, reasoning_end, generation, ..Utterance::new(seat, text) };
        if let Some(refusal) = ruling.refusal {
            utterance.extra.insert(REFUSAL.into(), refusal.name().into());
        }
        self.episode.history.push(utterance);
        let Some(verdict) = ruling.verdict else { return Step::Running(self) };
        let Self { spec, mut episode, state } = self;
        episode.extra.extend(state.record());
        Step::Finished(FinishedGame { number: spec.number, seed: spec.seed, episode, verdict })
    }

    /// Why the game cannot go on.
    pub(super) fn fault(&self) -> Option<TurnFailure> {
        self.state.fault()
    }

    /// Ends the game because the seat to move has no utterance.
    pub(super) fn fail(self, failure: TurnFailure) -> FailedGame {
        let seat = self.state.to_move();
        FailedGame { number: self.spec.number, seed: self.spec.seed, episode: self.episode, seat, failure }
    }
}
