//! The optimizer steps of an update.

use std::borrow::Cow;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use spag_train::{LogProbGap, OnlineLearner, StepRecord, Trajectory};

use super::play::gather_games;
use crate::config::{GapRule, OnlineSettings};
use crate::error::{Error, Result};
use crate::seeds::stage_seed;

/// Learns from the trajectories of this rank's games of an update, and its share of the general texts beside them: `ppo_epochs`
/// passes, each in `minibatches` steps. Returns the record of the first step, whose log-probabilities are those of the model that
/// played, with the mean loss and metrics of all steps; `None` if there is nothing to learn. `seed` is that of the stage's games.
pub(super) fn learn(
    settings: &OnlineSettings,
    learner: &mut OnlineLearner,
    (trajectories, texts): (&[Trajectory], &[Trajectory]),
    (update, seed): (usize, u64),
) -> Result<Option<StepRecord>> {
    let steps = settings.minibatches;
    let mut first: Option<StepRecord> = None;
    for epoch in 0..settings.ppo_epochs {
        let minibatches = minibatches(settings, learner, trajectories, (update, epoch, seed))?;
        for (at, minibatch) in minibatches.into_iter().enumerate() {
            let texts = &texts[texts.len() * at / steps..texts.len() * (at + 1) / steps];
            let Some(step) = learner.learner().step_if_any(&[&minibatch, texts])? else { continue };
            if first.is_none() {
                check_gap(settings, learner, update, step.log_prob_gap)?;
            }
            let StepRecord { learning_rate, grad_norm, tokens, .. } = step;
            first = Some(match first {
                None => step,
                Some(first) => StepRecord {
                    tokens: first.tokens + tokens,
                    grad_norm: first.grad_norm.max(grad_norm),
                    learning_rate,
                    ..first
                },
            });
        }
    }
    let mean = learner.learner().close_window();
    Ok(first.map(|first| match settings.minibatches * settings.ppo_epochs {
        1 => first,
        _ => StepRecord { loss: mean.loss, metrics: mean.metrics, ..first },
    }))
}

/// The trajectories of each step of a pass on this rank. All games of an update are shuffled and dealt out; those of a game stay
/// together.
fn minibatches<'a>(
    settings: &OnlineSettings,
    learner: &mut OnlineLearner,
    trajectories: &'a [Trajectory],
    (update, epoch, seed): (usize, usize, u64),
) -> Result<Vec<Cow<'a, [Trajectory]>>> {
    let count = settings.minibatches;
    if count == 1 {
        return Ok(vec![Cow::Borrowed(trajectories)]);
    }
    let own = trajectories.iter().map(|trajectory| (trajectory.row, ()));
    let mut games: Vec<usize> =
        gather_games(learner.learner().group(), own.collect())?.into_iter().map(|(game, ())| game).collect();
    games.dedup();
    games.shuffle(&mut ChaCha8Rng::seed_from_u64(stage_seed(seed, &format!("update-{update}/pass-{epoch}"))));
    let of = |step: usize| {
        let of_step = &games[games.len() * step / count..games.len() * (step + 1) / count];
        Cow::Owned(trajectories.iter().filter(|trajectory| of_step.contains(&trajectory.row)).cloned().collect())
    };
    Ok((0..count).map(of).collect())
}

/// On a CPU the learner's log-probabilities have the bits of those at sampling.
fn check_gap(settings: &OnlineSettings, learner: &mut OnlineLearner, update: usize, gap: LogProbGap) -> Result<()> {
    let is_expected = settings.log_prob_gap == GapRule::Report || !settings.learns_from_itself();
    if gap.max == 0.0 || is_expected || !(settings.exact || learner.learner().weights().device().is_cpu()) {
        return Ok(());
    }
    Err(Error::LogProbGap { update, max: gap.max, mean: gap.mean(), tokens: gap.tokens })
}
