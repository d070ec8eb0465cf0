//! The winner's utterances.

use spag_game::{EpisodeView, Verdict};

use super::Credit;

/// Each utterance of the winner has reward 1, up to the deciding one, for imitation. A game with a broken rule has no
/// samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImitatedWinner;

impl Credit for ImitatedWinner {
    fn has_samples(&self, verdict: &Verdict) -> bool {
        verdict.rewarded_winner().is_some()
    }

    fn rewards(&self, episode: &EpisodeView<'_>, verdict: &Verdict) -> Vec<(usize, f64)> {
        winner_utterances(episode, verdict).into_iter().map(|utterance| (utterance, 1.0)).collect()
    }
}

/// The indices of the winner's utterances up to the deciding one.
pub(super) fn winner_utterances(episode: &EpisodeView<'_>, verdict: &Verdict) -> Vec<usize> {
    let Some(winner) = verdict.rewarded_winner() else { return Vec::new() };
    let counted = episode.history.iter().take(verdict.history_length).enumerate();
    counted.filter(|(_, utterance)| utterance.seat == winner).map(|(at, _)| at).collect()
}
