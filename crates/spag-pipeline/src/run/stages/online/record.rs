//! The files of an on-policy run: its games, a line of metrics for each update, and what a resumed run goes on from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spag_dist::{ProcessGroup, gather_numbers};
use spag_game::{Episode, Labels, SEATS};
use spag_io::{JsonlAppender, read_json, write_json_atomically};
use spag_model::FinishReason;
use spag_rewards::EstimatorState;
use spag_selfplay::GameStats;
use spag_train::{LogProbGap, StepRecord, Trajectory};

use super::opponents::{Against, Pool};
use super::play::{Batch, Played, gather_games, only_game};
use crate::error::Result;
use crate::run::context::RunContext;
use crate::run::folder::StageFolder;

/// What is saved beside a checkpoint of the learner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    /// Updates of the run so far.
    pub(super) updates: usize,
    /// The estimator's state.
    pub(super) estimator: EstimatorState,
    /// The opponents.
    #[serde(default)]
    pub(super) pool: Pool,
    /// Bytes of the stage's episodes, of its metrics, and of the run's metrics.
    lengths: [u64; 3],
}

impl Saved {
    fn path(stage: &StageFolder, step: usize) -> PathBuf {
        stage.file(&format!("online-{step}.json"))
    }

    /// What was saved with the learner's step `step`.
    pub(super) fn read(stage: &StageFolder, step: usize) -> Result<Option<Self>> {
        Ok(read_json(Self::path(stage, step))?)
    }

    /// As the next part of the run finds it: its own files are empty.
    pub(super) fn of_part_before(self) -> Self {
        Self { lengths: [0, 0, self.lengths[2]], ..self }
    }

    /// Saves the state before the learner's checkpoint of this step is written.
    pub(super) fn write(
        stage: &StageFolder,
        step: usize,
        updates: usize,
        (estimator, pool): (EstimatorState, Pool),
        files: &Files,
    ) -> Result<()> {
        files.sync()?;
        let lengths = files.lengths()?;
        Ok(write_json_atomically(Self::path(stage, step), &Self { updates, estimator, pool, lengths })?)
    }
}

/// The files that grow with each update.
pub(super) struct Files {
    episodes: JsonlAppender<Episode>,
    metrics: JsonlAppender<Map<String, Value>>,
    run_metrics: JsonlAppender<Map<String, Value>>,
}

impl Files {
    /// Opens the files as they were when `saved` was written.
    pub(super) fn open(run: RunContext<'_>, stage: &StageFolder, saved: Option<&Saved>) -> Result<Self> {
        let [episodes, metrics, run_metrics] = saved.map_or([0; 3], |saved| saved.lengths);
        Ok(Self {
            episodes: JsonlAppender::reopen(stage.episodes(), episodes)?,
            metrics: JsonlAppender::reopen(stage.metrics(), metrics)?,
            run_metrics: JsonlAppender::reopen(run.config.run_dir.join("metrics.jsonl"), run_metrics)?,
        })
    }

    fn sync(&self) -> Result<()> {
        self.episodes.sync()?;
        self.metrics.sync()?;
        Ok(self.run_metrics.sync()?)
    }

    fn lengths(&self) -> Result<[u64; 3]> {
        Ok([self.episodes.length()?, self.metrics.length()?, self.run_metrics.length()?])
    }

    /// Appends the games of an update and its line of metrics.
    pub(super) fn append(&mut self, record: &UpdateRecord) -> Result<()> {
        record.episodes.iter().try_for_each(|episode| self.episodes.append(episode))?;
        self.metrics.append(&record.line)?;
        Ok(self.run_metrics.append(&record.line)?)
    }
}

/// Seconds of the parts of an update.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seconds {
    pub(super) play: f64,
    pub(super) learn: f64,
    pub(super) refresh: f64,
}

/// What an update did, over all ranks.
pub(super) struct UpdateRecord {
    line: Map<String, Value>,
    /// The games of all ranks, in their order.
    episodes: Vec<Episode>,
    pub(super) seconds: Seconds,
}

/// Numbers of the games and samples of an update that ranks add.
#[derive(Clone, Copy, Default)]
struct Sums {
    games: f64,
    failed: f64,
    /// By seat.
    wins: [f64; SEATS],
    rewards: [f64; SEATS],
    utterances: f64,
    empty: f64,
    tokens: f64,
    /// −Σ ln p of the sampled tokens: their number times an estimate of the entropy.
    surprisal: f64,
    /// Utterances of `max_new_tokens`.
    too_long: f64,
    /// Σ ln π − ln π_ref of the learned tokens, and their number, if there is a reference.
    divergence: f64,
    compared: f64,
    samples: f64,
}

impl Sums {
    fn of(batch: &Batch, trajectories: &[Trajectory]) -> Self {
        let mut sums = Self { games: batch.games.len() as f64, failed: batch.failed as f64, ..Self::default() };
        for Played { game, turns, rewarded } in &batch.games {
            for (seat, reward) in rewarded.rewards.iter().enumerate() {
                sums.rewards[seat] += reward;
            }
            if let Some(winner) = game.verdict.winner() {
                sums.wins[winner.index()] += 1.0;
            }
            let own = turns.iter().zip(&game.episode.history);
            for (turn, said) in own.filter_map(|(turn, said)| Some((turn.as_ref()?, said))) {
                sums.utterances += 1.0;
                sums.empty += f64::from(u8::from(said.content.trim().is_empty()));
                sums.tokens += turn.generation.token_ids.len() as f64;
                sums.too_long += f64::from(u8::from(turn.finish == FinishReason::Length));
                sums.surprisal -= turn.log_probs().iter().map(|l| f64::from(*l)).sum::<f64>();
            }
        }
        for span in trajectories.iter().flat_map(|trajectory| &trajectory.spans) {
            if let (Some(own), Some(reference)) = (&span.sampling_log_probs, &span.ref_token_log_probs) {
                sums.divergence += own.iter().zip(reference).map(|(own, other)| f64::from(own - other)).sum::<f64>();
                sums.compared += own.len() as f64;
            }
        }
        sums.samples = trajectories.iter().map(|trajectory| trajectory.spans.len()).sum::<usize>() as f64;
        sums
    }

    fn numbers(&self) -> Vec<f64> {
        let Self {
            games, failed, utterances, empty, tokens, surprisal, samples, too_long, divergence, compared, ..
        } = *self;
        let numbers = [games, failed, utterances, empty, tokens, surprisal, samples, too_long, divergence, compared];
        [&numbers[..], &self.wins, &self.rewards].concat()
    }

    /// The sums over all ranks.
    fn over(self, group: &dyn ProcessGroup) -> Result<Self> {
        let all = gather_numbers(group, &self.numbers())?;
        let sum = |at: usize| all.iter().filter_map(|rank| rank.get(at)).sum::<f64>();
        let seats = |at: usize| std::array::from_fn(|seat| sum(at + seat));
        Ok(Self {
            games: sum(0),
            failed: sum(1),
            utterances: sum(2),
            empty: sum(3),
            tokens: sum(4),
            surprisal: sum(5),
            samples: sum(6),
            too_long: sum(7),
            divergence: sum(8),
            compared: sum(9),
            wins: seats(10),
            rewards: seats(10 + SEATS),
        })
    }
}

impl UpdateRecord {
    /// Gathers the games and numbers of all ranks.
    pub(super) fn new(
        run: RunContext<'_>,
        update: usize,
        batch: Batch,
        trajectories: &[Trajectory],
        (step, against): (Option<&StepRecord>, Option<Against>),
        seconds: Seconds,
    ) -> Result<Self> {
        let group = &*run.ranks.group;
        let sums = Sums::of(&batch, trajectories).over(group)?;
        let own = batch.games.into_iter().map(|played| (played.game.game, played.game.episode));
        let episodes: Vec<Episode> =
            gather_games(group, own.collect())?.into_iter().map(|(_, episode)| episode).collect();
        let game = &*only_game(run)?.game;
        let mut speech = GameStats::new(game.labels());
        let mut judge = game.judge();
        for episode in &episodes {
            speech.add(episode, &judge.judge(&episode.view())?);
        }
        let mut line = line(game.labels(), update, (&sums, &speech), step, seconds);
        if let Some(Against { update, games, score }) = against {
            line.insert("opponent_update".to_owned(), update.into());
            line.insert("opponent_games".to_owned(), games.into());
            line.insert("opponent_score".to_owned(), (score / games).into());
        }
        Ok(Self { line, episodes, seconds })
    }

    /// A short note for the progress.
    pub(super) fn note(&self) -> String {
        let number = |key: &str| self.line.get(key).and_then(Value::as_f64);
        let shown = [("loss", "loss"), ("log_prob_gap_max", "gap"), ("entropy", "entropy")];
        let shown = shown.into_iter().filter_map(|(key, name)| Some(format!("{name} {:.4}", number(key)?)));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// A line of `metrics.jsonl`. Without a step, since no utterance has an advantage, its loss and the like are absent.
fn line(
    labels: &Labels,
    update: usize,
    (sums, speech): (&Sums, &GameStats),
    step: Option<&StepRecord>,
    seconds: Seconds,
) -> Map<String, Value> {
    let mut line = Map::new();
    let mut add = |key: String, value: f64| line.insert(key, value.into());
    let mean = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
    add("games".into(), sums.games);
    add("failed_games".into(), sums.failed);
    for seat in labels.seats {
        add(format!("{}_wins", seat.name()), mean(sums.wins[seat.index()], sums.games));
        add(format!("{}_reward", seat.name()), mean(sums.rewards[seat.index()], sums.games));
    }
    add("ties".into(), mean(sums.games - sums.wins.iter().sum::<f64>(), sums.games));
    add("utterances".into(), sums.utterances);
    add("empty_utterances".into(), mean(sums.empty, sums.utterances));
    add("too_long_utterances".into(), mean(sums.too_long, sums.utterances));
    let said = speech.all_speech();
    add("repeated_utterances".into(), said.repeated_share().unwrap_or(0.0));
    add("distinct_words".into(), said.distinct_1.unwrap_or(0.0));
    add("tokens_per_utterance".into(), mean(sums.tokens, sums.utterances));
    add("entropy".into(), mean(sums.surprisal, sums.tokens));
    add("samples".into(), sums.samples);
    if sums.compared > 0.0 {
        add("kl_reference".into(), sums.divergence / sums.compared);
    }
    let gap = step.map_or_else(LogProbGap::default, |step| step.log_prob_gap);
    add("log_prob_gap_max".into(), gap.max);
    add("log_prob_gap_mean".into(), gap.mean());
    add("log_prob_gap_tokens".into(), gap.tokens as f64);
    if let Some(step) = step {
        add("loss".into(), step.loss);
        add("grad_norm".into(), step.grad_norm);
        add("learning_rate".into(), step.learning_rate);
        add("tokens".into(), step.tokens as f64);
        add("computed_tokens".into(), step.computed_tokens as f64);
        for (name, value) in step.metrics.iter() {
            add(name.to_owned(), value);
        }
    }
    add("play_seconds".into(), seconds.play);
    add("learn_seconds".into(), seconds.learn);
    add("refresh_seconds".into(), seconds.refresh);
    let numbered = [("update", update + 1), ("step", update + 1)].map(|(key, value)| (key.to_owned(), value.into()));
    numbered.into_iter().chain(line).collect()
}
