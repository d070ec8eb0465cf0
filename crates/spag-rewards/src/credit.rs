//! Credit assignment in memory: judged episodes to the winners' rewarded utterances.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use spag_game::{Episode, EpisodeView, PromptSet, RefereeCache, Role, Verdict, game_seed};

use crate::{CreditConfig, CreditSummary, Error, Result, Sample, discounted_rewards};

/// Bytes of a game's samples beyond which it is refused, before any is made.
const MAX_BYTES: usize = 1 << 28;

/// The result of [`assign_rewards`].
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedRewards {
    /// The winners' utterances, in the order of the episodes and of play.
    pub samples: Vec<Sample>,
    /// The verdict on each episode, in order.
    pub verdicts: Vec<Verdict>,
    /// Counts of both, and the weights.
    pub summary: CreditSummary,
}

/// Judges every episode, and turns the winner's utterances up to the deciding one into weighted samples.
///
/// A sample's query is the game before the utterance, in a wording drawn from (`config.seed`, index of the episode, index
/// of the utterance), or the messages of play in a chat. Episodes without a winner have no samples.
///
/// # Errors
/// An episode cannot be judged (the error names its 1-based row), the samples of a game are too long, or a setting is out
/// of range.
pub fn assign_rewards(episodes: &[Episode], prompts: &PromptSet, config: &CreditConfig) -> Result<AssignedRewards> {
    config.check()?;
    let mut summary = CreditSummary::default();
    let mut referees = RefereeCache::new(config.judge);
    let mut verdicts = Vec::with_capacity(episodes.len());
    for (row, episode) in (1..).zip(episodes) {
        let verdict = referees.judge(&episode.view()).map_err(|source| Error::Judge { row, source })?;
        summary.count_game(verdict.outcome);
        verdicts.push(verdict);
    }
    summary.set_balancing_weights();
    let mut samples = Vec::new();
    for (index, (episode, verdict)) in episodes.iter().zip(&verdicts).enumerate() {
        if let Some(winner) = verdict.outcome.winner() {
            let credited = credit_game(index, &episode.view(), verdict, winner, prompts, config)?;
            summary.count_samples(winner, credited.len());
            samples.extend(credited.into_iter().map(|sample| Sample { weight: summary.weights.of(winner), ..sample }));
        }
    }
    Ok(AssignedRewards { samples, verdicts, summary })
}

/// The samples of one game with a winner, with weight 1.
pub(crate) fn credit_game(
    index: usize,
    episode: &EpisodeView<'_>,
    verdict: &Verdict,
    winner: Role,
    prompts: &PromptSet,
    config: &CreditConfig,
) -> Result<Vec<Sample>> {
    let mut samples = winner_samples(index, episode, verdict, winner, prompts, config.seed)?;
    let rewards = discounted_rewards(samples.len(), config.decay_weight, config.norm);
    samples.iter_mut().zip(rewards).for_each(|(sample, reward)| sample.reward = reward);
    Ok(samples)
}

/// The winner's utterances up to the deciding one, each with its query; reward and weight are 1.
pub(crate) fn winner_samples(
    index: usize,
    episode: &EpisodeView<'_>,
    verdict: &Verdict,
    winner: Role,
    prompts: &PromptSet,
    seed: u64,
) -> Result<Vec<Sample>> {
    check_size(episode, verdict, winner)?;
    let game = game_seed(seed, index);
    let utterances = episode.history.iter().take(verdict.history_length).enumerate();
    let samples = utterances.filter(|(_, utterance)| utterance.role == winner).map(|(at, utterance)| {
        let mut rng = ChaCha8Rng::seed_from_u64(game_seed(game, at));
        let query = prompts.training_prompt_at(episode, at, &mut rng);
        Sample { role: Some(winner), ..Sample::new(query, strip(&utterance.content)) }
    });
    Ok(samples.collect())
}

/// Refuses a game whose samples would take more than [`MAX_BYTES`]: they grow with the square of its length.
fn check_size(episode: &EpisodeView<'_>, verdict: &Verdict, winner: Role) -> Result<()> {
    let (mut samples, mut before, mut bytes) = (0, 0usize, 0usize);
    for utterance in episode.history.iter().take(verdict.history_length) {
        if utterance.role == winner {
            samples += 1;
            bytes = bytes.saturating_add(before + utterance.content.len() + episode.target_word.len());
        }
        before += utterance.content.len();
    }
    if bytes > MAX_BYTES { Err(Error::LongGame { samples, bytes, limit: MAX_BYTES }) } else { Ok(()) }
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
