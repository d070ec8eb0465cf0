//! From judged games to the winners' rewarded utterances.

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use spag_game::{Episode, JudgeKind, PromptSet, Role, Verdict, game_seed, judge_episode};

use crate::{CreditConfig, CreditSummary, Error, Result, Sample, discounted_rewards, strip::strip};

/// What [`assign_rewards`] makes of a set of episodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Credited {
    /// The winners' utterances, in the order of the episodes and of play.
    pub samples: Vec<Sample>,
    /// How each episode ended, in order.
    pub verdicts: Vec<Verdict>,
    /// Counts of both, and the weights.
    pub summary: CreditSummary,
}

/// Judges every episode, and turns the winners' utterances up to the deciding one into weighted samples.
///
/// A sample's query is the game as it stood before the utterance, in a wording drawn from
/// (`config.seed`, number of the episode, number of the utterance) alone. Undecided games give no samples.
///
/// # Errors
/// An episode that cannot be judged, with its row counted from 1, or settings out of range.
pub fn assign_rewards(episodes: &[Episode], prompts: &PromptSet, config: &CreditConfig) -> Result<Credited> {
    config.check()?;
    let mut summary = CreditSummary::default();
    let mut verdicts = Vec::with_capacity(episodes.len());
    for (index, episode) in episodes.iter().enumerate() {
        let verdict = judge(config.judge, index + 1, episode)?;
        summary.count_game(verdict.outcome);
        verdicts.push(verdict);
    }
    let weights = summary.balancing_weights();
    summary.weights = weights;
    let mut samples = Vec::new();
    for (index, (episode, verdict)) in episodes.iter().zip(&verdicts).enumerate() {
        let Some(winner) = verdict.outcome.winner() else { continue };
        let credited = credit_game(index, episode, verdict, winner, prompts, config);
        summary.count_samples(winner, credited.len());
        samples.extend(credited.into_iter().map(|sample| Sample { weight: weights.of(winner), ..sample }));
    }
    Ok(Credited { samples, verdicts, summary })
}

/// The verdict on the episode of the given row (counted from 1).
pub(crate) fn judge(kind: JudgeKind, row: usize, episode: &Episode) -> Result<Verdict> {
    judge_episode(kind, episode).map_err(|source| Error::Judge { row, source })
}

/// The winner's utterances of one decided game, not yet weighted.
pub(crate) fn credit_game(
    index: usize,
    episode: &Episode,
    verdict: &Verdict,
    winner: Role,
    prompts: &PromptSet,
    config: &CreditConfig,
) -> Vec<Sample> {
    let utterances = winning_utterances(index, episode, verdict, winner, prompts, config.seed);
    let rewards = discounted_rewards(utterances.len(), config.decay_weight, config.norm);
    utterances.into_iter().zip(rewards).map(|(sample, reward)| Sample { reward, ..sample }).collect()
}

/// What the winner said up to the deciding utterance, each after its query; rewards and weights are 1.
pub(crate) fn winning_utterances(
    index: usize,
    episode: &Episode,
    verdict: &Verdict,
    winner: Role,
    prompts: &PromptSet,
    seed: u64,
) -> Vec<Sample> {
    let game = game_seed(seed, index);
    let said = episode.history.iter().take(verdict.history_length).enumerate();
    said.filter(|(_, utterance)| utterance.role == winner)
        .map(|(at, utterance)| {
            let mut rng = ChaCha8Rng::seed_from_u64(game_seed(game, at));
            let before = episode.history.get(..at).unwrap_or_default();
            let query = prompts.training_query(before, &episode.target_word, episode.max_turns, &mut rng);
            Sample { role: Some(winner), ..Sample::plain(query, strip(&utterance.content).to_owned()) }
        })
        .collect()
}
