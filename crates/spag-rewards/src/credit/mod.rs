//! Credit assignment: judged games to rewarded samples.

mod decayed_winner;
mod drawn_winner;
mod in_memory;
mod norm;
mod rule;
mod signed_seats;
mod winner;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use spag_game::{EpisodeView, Game, SEATS, Tally, Verdict, game_seed};

pub use decayed_winner::{DecayedWinner, discounted_rewards};
pub use drawn_winner::DrawnWinner;
pub use in_memory::{AssignedRewards, assign_rewards, credit_games};
pub use norm::RewardNorm;
pub use rule::CreditRule;
pub use signed_seats::SignedSeats;
pub use winner::ImitatedWinner;

use crate::{CreditSummary, Error, Result, Sample, SampleReasoning};

/// Bytes of a game's samples beyond which it is refused, before any is made.
const MAX_BYTES: usize = 1 << 28;

/// A rule of credit assignment: which utterances of a game become samples, and with which rewards and weights.
///
/// Files are credited in two passes that hold one game at a time: all games are counted before the first sample is made.
pub trait Credit: Send + Sync {
    /// Whether a game that ended so has samples. The other games are not read again.
    fn has_samples(&self, verdict: &Verdict) -> bool;

    /// The 0-based indices of the utterances that become samples, in the order of play, each with its reward.
    fn rewards(&self, episode: &EpisodeView<'_>, verdict: &Verdict) -> Vec<(usize, f64)>;

    /// The rule with what it takes from the counts of all games; `None`, by default, if its rewards do not depend on them.
    fn counted(&self, games: &Tally) -> Option<Box<dyn Credit>> {
        let _ = games;
        None
    }

    /// The weight of the samples of each seat, from the counts of all games. 1 by default.
    fn weights(&self, games: &Tally) -> [f64; SEATS] {
        let _ = games;
        [1.0; SEATS]
    }
}

/// What makes samples of games, in memory and from file to file.
#[derive(Clone, Copy)]
pub(crate) struct Crediting<'a> {
    pub(crate) rule: &'a dyn Credit,
    pub(crate) game: &'a dyn Game,
    /// Seed of the wordings.
    pub(crate) seed: u64,
    pub(crate) reasoning: &'a SampleReasoning,
}

impl Crediting<'_> {
    /// The samples of the game at `index`, with the weights of `summary`, which counts them.
    ///
    /// A sample's query is the game before the utterance, in a wording drawn from (seed, index of the episode, index of the
    /// utterance), or the messages of play in a chat.
    pub(crate) fn samples(
        &self,
        index: usize,
        episode: &EpisodeView<'_>,
        verdict: &Verdict,
        summary: &mut CreditSummary,
    ) -> Result<Vec<Sample>> {
        let rewards = self.rule.rewards(episode, verdict);
        check_size(episode, &rewards)?;
        let base = game_seed(self.seed, index);
        let mut game_name = self.game.record_keys();
        game_name.retain(|key, _| key == "game_name");
        let samples = rewards.into_iter().filter_map(|(at, reward)| {
            let utterance = episode.history.get(at)?;
            let mut rng = ChaCha8Rng::seed_from_u64(game_seed(base, at));
            let prompt = match self.game.training_prompt(episode, at, &mut rng) {
                Ok(prompt) => prompt,
                Err(error) => return Some(Err(error.into())),
            };
            summary.count_sample(utterance.seat, verdict);
            let (seat, weight) = (Some(utterance.seat), summary.weight(utterance.seat));
            let extra = game_name.clone();
            let sample = self.reasoning.sample(prompt, episode, at, strip(&utterance.content));
            Some(Ok(Sample { seat, reward, weight, extra, ..sample }))
        });
        samples.collect()
    }
}

/// Refuses a game whose samples would take more than [`MAX_BYTES`]: they grow with the square of its length.
fn check_size(episode: &EpisodeView<'_>, rewards: &[(usize, f64)]) -> Result<()> {
    let sizes: Vec<usize> = episode
        .history
        .iter()
        .scan(0usize, |before, utterance| {
            let here = *before;
            *before += utterance.content.len();
            let thought = utterance.reasoning.as_ref().map_or(0, |reasoning| reasoning.len());
            Some(here + thought + utterance.content.len() + episode.item.len())
        })
        .collect();
    let sizes = rewards.iter().filter_map(|(at, _)| sizes.get(*at));
    let bytes = sizes.fold(0usize, |bytes, size| bytes.saturating_add(*size));
    if bytes > MAX_BYTES {
        return Err(Error::LongGame { samples: rewards.len(), bytes, limit: MAX_BYTES });
    }
    Ok(())
}

/// Python's `str.strip()`: strips Unicode white space, as [`str::trim`], and the separators U+001C to U+001F.
fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn strip_removes_what_python_removes() {
        assert_eq!(strip("\u{1c}\u{1f} \t\n\u{b}\u{85}\u{a0}\u{1680}\u{2003}\u{2028}\u{3000}a b\u{1d}\u{1e}"), "a b");
        // Python keeps zero-width spaces and byte order marks.
        assert_eq!(strip("\u{200b}a\u{feff}"), "\u{200b}a\u{feff}");
        assert_eq!(strip(" \n "), "");
    }
}
