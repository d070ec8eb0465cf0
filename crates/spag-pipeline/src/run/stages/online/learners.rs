//! The learners of an on-policy run: one, or one for each seat, side by side over the same frozen weights.
//!
//! With one for each seat, each learns from the utterances of its seat alone, and has an optimizer, a reference and checkpoints of its own;
//! those of the second seat are in a folder of the stage's. A checkpoint of the run is the state of the loop, which names the step of the
//! second learner, and the checkpoint of the first one. The second learner's is written before both, beside its earlier one, so that a
//! run that is killed in between still has the one that the last state names, and deletes the later one ([`remove_uncounted`]).

use serde_json::{Map, Value};
use spag_dist::gather_numbers;
use spag_game::SEATS;
use spag_run::files::SECOND_SEAT;
use spag_train::{OnlineLearner, StepRecord, Trajectory, remove_checkpoints_after};

use super::files::Saved;
use super::player::Players;
use super::reference::MovingReference;
use super::trajectories::Learned;
use super::{divergence, learn};
use crate::config::{OnlineSettings, RunConfig};
use crate::error::{Error, Result};
use crate::run::context::RunContext;
use crate::run::stage_folder::StageFolder;

/// The names of the seats before their keys in `metrics.jsonl`, where the run's games may call them differently.
const SEAT_KEYS: [&str; SEATS] = ["first_seat", "second_seat"];

/// A learner and what its divergence is measured from.
struct SeatLearner {
    learner: OnlineLearner,
    reference: MovingReference,
}

/// The learners of the run's policies.
pub(super) struct Learners {
    settings: OnlineSettings,
    /// Of both seats, or of the first.
    first: SeatLearner,
    second: Option<SeatLearner>,
}

/// Steps of the learners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) first: usize,
    pub(super) second: Option<usize>,
}

/// What an update's steps did.
#[derive(Default)]
pub(super) struct LearnerSteps {
    /// The record of all learners; `None` if there was nothing to learn.
    pub(super) all: Option<StepRecord>,
    /// What each learner's step did, for `metrics.jsonl`; empty if there is one learner.
    pub(super) of_seats: Map<String, Value>,
}

/// Deletes the checkpoints of the second seat's learner that no saved state of the loop counts.
pub(super) fn remove_uncounted(run: RunContext<'_>, stage: &StageFolder, saved: Option<&Saved>) -> Result<()> {
    let counted = saved.and_then(|saved| saved.second_step);
    run.ranks.on_rank_0(|| Ok(remove_checkpoints_after(stage.file(SECOND_SEAT), counted)?))
}

impl Learners {
    /// One learner, or those of both seats. The second must be where the saved state of the loop has it.
    pub(super) fn new(
        run: RunContext<'_>,
        settings: &OnlineSettings,
        (first, mut second): (OnlineLearner, Option<OnlineLearner>),
        saved: Option<&Saved>,
    ) -> Result<Self> {
        if let (Some(second), Some(saved)) = (&mut second, saved) {
            let step = second.learner().position().step;
            if saved.second_step != Some(step) {
                let of_saved = saved.second_step.map_or("none".to_owned(), |step| step.to_string());
                return Err(Error::DamagedRun {
                    path: second.job().output_dir.clone(),
                    message: format!(
                        "the last checkpoint there is of step {step}, and the run was saved at step {of_saved}"
                    ),
                });
            }
        }
        let of_seat =
            |learner, name| SeatLearner { learner, reference: MovingReference::new(run.config, settings, name) };
        Ok(Self {
            settings: settings.clone(),
            first: of_seat(first, "reference"),
            second: second.map(|learner| of_seat(learner, "reference-second-seat")),
        })
    }

    /// The learner of both seats, or of the first.
    pub(super) fn first(&self) -> &OnlineLearner {
        &self.first.learner
    }

    /// Gives the learners the references of update `update`.
    pub(super) fn open_references(&mut self, run: RunContext<'_>, update: usize) -> Result<()> {
        let Self { first, second, .. } = self;
        first.reference.open(run, (&mut first.learner, None), update)?;
        second.as_mut().map_or(Ok(()), |SeatLearner { learner, reference }| {
            reference.open(run, (learner, Some(&first.learner)), update)
        })
    }

    /// Renews the references after `updates` updates, if it is time. All ranks have to call it.
    pub(super) fn renew_references(&mut self, run: RunContext<'_>, updates: usize) -> Result<()> {
        let Self { first, second, .. } = self;
        first.reference.renew(run, (&mut first.learner, None), updates)?;
        second.as_mut().map_or(Ok(()), |SeatLearner { learner, reference }| {
            reference.renew(run, (learner, Some(&first.learner)), updates)
        })
    }

    /// Gives the learners' weights to the engine, if the games are theirs. All ranks have to call it.
    pub(super) fn refresh(&mut self, players: &mut Players, updates: usize) -> Result<()> {
        if !self.settings.learns_from_itself() {
            return Ok(());
        }
        players.first().refresh(&*self.first.learner.learner().weights(), updates as u64)?;
        let Some(second) = &mut self.second else { return Ok(()) };
        match second.learner.learner().trained_adapter()? {
            Some(adapter) => players.set_second(&adapter, updates as u64),
            None => Ok(()),
        }
    }

    /// Learns from the trajectories of this rank's games of an update, and its share of the general texts beside them, which learners of
    /// both seats divide: [`learn::learn`].
    pub(super) fn learn(
        &mut self,
        (learned, texts): (&mut Learned, &[Trajectory]),
        at: (usize, u64),
    ) -> Result<LearnerSteps> {
        let Self { settings, first, second } = self;
        let first = &mut first.learner;
        let Some(SeatLearner { learner: second, .. }) = second else {
            first.add_reference(&mut learned.trajectories)?;
            divergence::subtract(settings, learned)?;
            let all = learn::learn(settings, first, (&learned.trajectories, texts), at)?;
            return Ok(LearnerSteps { all, ..LearnerSteps::default() });
        };
        let firsts = learned.sort_by_seat();
        let (of_first, of_second) = learned.trajectories.split_at_mut(firsts);
        first.add_reference(of_first)?;
        second.add_reference(of_second)?;
        divergence::subtract(settings, learned)?;
        let (of_first, of_second) = learned.trajectories.split_at(firsts);
        let (texts_of_first, texts_of_second) = texts.split_at(texts.len().div_ceil(2));
        let steps = [
            learn::learn(settings, first, (of_first, texts_of_first), at)?,
            learn::learn(settings, second, (of_second, texts_of_second), at)?,
        ];
        let samples = [of_first, of_second].map(|own| own.iter().map(|one| one.spans.len()).sum::<usize>() as f64);
        let of_ranks = gather_numbers(first.learner().group(), &samples)?;
        let samples: [f64; SEATS] = std::array::from_fn(|seat| of_ranks.iter().map(|rank| rank[seat]).sum());
        let mut of_seats = Map::new();
        for ((key, step), samples) in SEAT_KEYS.into_iter().zip(&steps).zip(samples) {
            let numbers = step.iter().flat_map(|step| numbers(step, samples));
            of_seats.extend(numbers.map(|(name, value)| (format!("{key}_{name}"), value.into())));
        }
        let steps: Vec<(StepRecord, f64)> =
            steps.into_iter().zip(samples).filter_map(|(step, samples)| Some((step?, samples))).collect();
        Ok(LearnerSteps { all: StepRecord::joined(first.learner().loss().metrics(), &steps), of_seats })
    }

    /// Saves all learners. `save_state` saves the state of the loop, with their steps, before it counts. All ranks have to call it.
    pub(super) fn save(&mut self, save_state: impl FnOnce(Steps) -> Result<()>) -> Result<()> {
        let Self { first, second, .. } = self;
        if let Some(second) = second {
            second.learner.save_beside_earlier()?;
        }
        let step = |of: &mut SeatLearner| of.learner.learner().position().step;
        save_state(Steps { first: step(first), second: second.as_mut().map(step) })?;
        first.learner.save()?;
        Ok(second.as_ref().map_or(Ok(()), |second| second.learner.remove_earlier_checkpoints())?)
    }

    /// Deletes the references before those of update `updates`. Earlier checkpoints must be gone.
    pub(super) fn remove_left(&self, config: &RunConfig, updates: usize) -> Result<()> {
        let all = std::iter::once(&self.first).chain(&self.second);
        all.map(|of| &of.reference).try_for_each(|reference| reference.remove_left(config, updates))
    }

    /// Writes the models, and the adapters if these are trained. All ranks have to call it.
    pub(super) fn write(&self, run: RunContext<'_>, stage: &StageFolder) -> Result<()> {
        self.first.learner.write_adapter(&stage.dir)?;
        self.first.learner.write_model(&stage.model())?;
        if let Some(SeatLearner { learner, .. }) = &self.second {
            let own = StageFolder::new(stage.file(SECOND_SEAT), SECOND_SEAT);
            learner.write_adapter(&own.dir)?;
            learner.write_model(&own.model())?;
        }
        run.ranks.barrier()
    }
}

/// What `metrics.jsonl` has of one learner's step.
fn numbers(step: &StepRecord, samples: f64) -> Vec<(&str, f64)> {
    let StepRecord { loss, grad_norm, learning_rate, tokens, computed_tokens, log_prob_gap, metrics, .. } = step;
    let own = [
        ("samples", samples),
        ("loss", *loss),
        ("grad_norm", *grad_norm),
        ("learning_rate", *learning_rate),
        ("tokens", *tokens as f64),
        ("computed_tokens", *computed_tokens as f64),
        ("log_prob_gap_max", log_prob_gap.max),
    ];
    own.into_iter().chain(metrics.iter()).collect()
}
