//! Recorded games, played again by the rules.

use spag_io::TurnPrompt;

use crate::episode::{Episode, EpisodeView, ReasoningEnd};
use crate::error::{Error, Result};
use crate::game::{Game, Judge, Match, Ruling};
use crate::spec::GameSpec;
use crate::verdict::Verdict;

/// Judges a recorded game by what a match of it does with its utterances.
#[derive(Debug)]
pub(crate) struct Replay<'g, G: ?Sized>(pub(crate) &'g G);

impl<G: Game + ?Sized> Judge for Replay<'_, G> {
    fn judge(&mut self, episode: &EpisodeView<'_>) -> Result<Verdict> {
        replay(self.0, episode)?.ok_or(Error::Unfinished { utterances: episode.history.len() })
    }
}

/// Plays the utterances of an episode by the rules of its game. Returns the verdict, or `None` while the game goes on.
/// Utterances after the end do not count.
///
/// # Errors
/// The episode is of another game, there is no game about the item, or an utterance is not that of the seat to move.
pub fn replay<G: Game + ?Sized>(game: &G, episode: &EpisodeView<'_>) -> Result<Option<Verdict>> {
    let mut state = start(game, episode)?;
    for at in 0..episode.history.len() {
        if let Some(verdict) = apply(state.as_mut(), episode, at)?.verdict {
            return Ok(Some(verdict));
        }
    }
    Ok(None)
}

/// The prompt that the utterance at `utterance` answered.
pub(crate) fn prompt<G: Game + ?Sized>(game: &G, episode: &EpisodeView<'_>, utterance: usize) -> Result<TurnPrompt> {
    let mut state = start(game, episode)?;
    let mut said = Episode::new(&*episode.item, episode.max_turns);
    for at in 0..utterance.min(episode.history.len()) {
        if apply(state.as_mut(), episode, at)?.verdict.is_some() {
            return Err(Error::Ended { utterances: at + 1 });
        }
        said.push(episode.history[at].seat, &*episode.history[at].content);
    }
    Ok(state.prompt(state.to_move(), &said))
}

/// A match of the game of an episode, which must be of this game if it names one.
fn start<'g, G: Game + ?Sized>(game: &'g G, episode: &EpisodeView<'_>) -> Result<Box<dyn Match + 'g>> {
    let expected = game.labels().name;
    if let Some(found) = episode.game_name.as_deref().filter(|name| *name != expected) {
        return Err(Error::OtherGame { found: found.to_owned(), expected });
    }
    let item = episode.item.clone().into_owned();
    game.start(&GameSpec { number: 0, item, max_turns: episode.max_turns, seed: episode.seed, sampling_seed: None })
}

fn apply(state: &mut dyn Match, episode: &EpisodeView<'_>, at: usize) -> Result<Ruling> {
    let (said, expected) = (&episode.history[at], state.to_move());
    if said.seat != expected {
        return Err(Error::RolesOutOfOrder { index: at, found: said.seat, expected });
    }
    Ok(match said.reasoning_end {
        Some(ReasoningEnd::Unfinished) => state.apply_nothing(),
        Some(ReasoningEnd::Forced) | None => state.apply(&said.content),
    })
}
