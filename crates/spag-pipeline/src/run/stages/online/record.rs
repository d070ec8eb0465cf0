//! What an update did: its games, and its line of metrics.

use serde_json::{Map, Value};
use spag_dist::{ProcessGroup, gather_numbers};
use spag_game::{Episode, Labels, SEATS};
use spag_run::measure_of;
use spag_selfplay::{GameStats, ReasoningStats};
use spag_train::{LogProbGap, StepRecord, Trajectory};

use super::information::Information;
use super::opponents::Against;
use super::play::{Batch, gather_games, is_too_long, reasoning_tokens, tokens};
use super::selection::Selection;
use crate::error::Result;
use crate::run::context::RunContext;
use crate::run::stop::{broken_rule, broken_update_rule};

/// Seconds of the parts of an update.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seconds {
    pub(super) play: f64,
    pub(super) learn: f64,
    pub(super) refresh: f64,
}

/// What an update did beside its games and trajectories.
pub(super) struct OfUpdate<'a> {
    pub(super) update: usize,
    /// The first step; none if there was nothing to learn.
    pub(super) step: Option<&'a StepRecord>,
    pub(super) against: Option<Against>,
    pub(super) selection: &'a Selection,
    /// Of this rank.
    pub(super) information: Option<Information>,
    pub(super) seconds: Seconds,
}

/// What an update did, over all ranks.
pub(super) struct UpdateRecord {
    pub(super) line: Map<String, Value>,
    /// The games of all ranks, in their order, each with its place among the run's games.
    pub(super) episodes: Vec<(usize, Episode)>,
    pub(super) seconds: Seconds,
    /// The first rule of `[stop_when]` that the update breaks, with its value and the update's.
    pub(super) broken_rule: Option<String>,
}

/// Results of the games of one kind that ranks add.
#[derive(Clone, Copy, Default)]
struct Results {
    games: f64,
    /// By seat.
    wins: [f64; SEATS],
    rewards: [f64; SEATS],
}

/// Numbers of the games and samples of an update that ranks add.
#[derive(Clone, Default)]
struct Sums {
    /// Of each of the run's games.
    results: Vec<Results>,
    failed: f64,
    utterances: f64,
    empty: f64,
    tokens: f64,
    /// −Σ ln p of the sampled tokens: their number times an estimate of the entropy.
    surprisal: f64,
    /// Utterances of `max_new_tokens`.
    too_long: f64,
    /// Sampled tokens of reasoning.
    reasoning: f64,
    /// Σ ln π − ln π_ref of the learned tokens, and their number, if there is a reference.
    divergence: f64,
    compared: f64,
    samples: f64,
    /// Games that are not learned from.
    left_out: f64,
    information: Information,
}

impl Sums {
    fn of(
        batch: &Batch,
        kinds: usize,
        trajectories: &[Trajectory],
        (selection, information): (&Selection, Option<Information>),
    ) -> Self {
        let left_out = batch.games.iter().filter(|played| !selection.keeps(played.game.number)).count();
        let mut sums = Self {
            results: vec![Results::default(); kinds],
            failed: batch.failed as f64,
            left_out: left_out as f64,
            information: information.unwrap_or_default(),
            ..Self::default()
        };
        for played in &batch.games {
            let Some(results) = sums.results.get_mut(played.index) else { continue };
            results.games += 1.0;
            for (seat, reward) in played.rewarded.rewards.iter().enumerate() {
                results.rewards[seat] += reward;
            }
            if let Some(winner) = played.game.verdict.winner() {
                results.wins[winner.index()] += 1.0;
            }
            for (_, said) in played.learned() {
                sums.utterances += 1.0;
                sums.empty += f64::from(u8::from(said.content.trim().is_empty()));
                sums.tokens += tokens(said) as f64;
                sums.reasoning += reasoning_tokens(said) as f64;
                sums.too_long += f64::from(u8::from(is_too_long(said)));
                let log_probs = said.generation.iter().flat_map(|generation| &generation.sampling_log_probs);
                sums.surprisal -= log_probs.map(|l| f64::from(*l)).sum::<f64>();
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
            failed,
            utterances,
            empty,
            tokens,
            surprisal,
            samples,
            too_long,
            divergence,
            compared,
            reasoning,
            left_out,
            information,
            ..
        } = *self;
        let results = self.results.iter();
        let results = results.flat_map(|Results { games, wins, rewards }| [&[*games][..], wins, rewards].concat());
        let numbers = [
            failed,
            utterances,
            empty,
            tokens,
            surprisal,
            samples,
            too_long,
            divergence,
            compared,
            reasoning,
            left_out,
            information.sum,
            information.games,
        ];
        numbers.into_iter().chain(results).collect()
    }

    /// The sums over all ranks.
    fn over(self, group: &dyn ProcessGroup) -> Result<Self> {
        let all = gather_numbers(group, &self.numbers())?;
        let sum = |at: usize| all.iter().filter_map(|rank| rank.get(at)).sum::<f64>();
        let results = (0..self.results.len()).map(|kind| {
            let first = 13 + kind * (1 + 2 * SEATS);
            let seats = |at: usize| std::array::from_fn(|seat| sum(at + seat));
            Results { games: sum(first), wins: seats(first + 1), rewards: seats(first + 1 + SEATS) }
        });
        Ok(Self {
            failed: sum(0),
            utterances: sum(1),
            empty: sum(2),
            tokens: sum(3),
            surprisal: sum(4),
            samples: sum(5),
            too_long: sum(6),
            divergence: sum(7),
            compared: sum(8),
            reasoning: sum(9),
            left_out: sum(10),
            information: Information { sum: sum(11), games: sum(12) },
            results: results.collect(),
        })
    }
}

impl Sums {
    /// Games of all kinds.
    fn games(&self) -> f64 {
        self.results.iter().map(|results| results.games).sum()
    }
}

impl UpdateRecord {
    /// Gathers the games and numbers of all ranks.
    pub(super) fn new(
        run: RunContext<'_>,
        batch: Batch,
        trajectories: &[Trajectory],
        of_update: OfUpdate<'_>,
    ) -> Result<Self> {
        let OfUpdate { update, step, against, selection, information, seconds } = of_update;
        let (group, games) = (&*run.ranks.group, &run.inputs.games);
        let sums = Sums::of(&batch, games.len(), trajectories, (selection, information)).over(group)?;
        let record_tokens = run.config.self_play.record_tokens;
        let own = batch.games.into_iter().map(|mut played| {
            if !record_tokens {
                played.game.episode.history.iter_mut().for_each(|said| said.generation = None);
            }
            (played.game.number, (played.index, played.game.episode))
        });
        let episodes: Vec<(usize, Episode)> =
            gather_games(group, own.collect())?.into_iter().map(|(_, episode)| episode).collect();
        let mut line = line(update, &sums, step, seconds);
        let mut broken = None;
        for (index, (game, results)) in games.iter().zip(&sums.results).enumerate() {
            let mut stats = GameStats::new(game.game.labels());
            let mut judge = game.game.judge();
            for (_, episode) in episodes.iter().filter(|(of, _)| *of == index) {
                stats.add(episode, &judge.judge(&episode.view())?);
            }
            broken = broken.or_else(|| broken_rule(&run.config.stop_when, &stats));
            let numbers = results.numbers(game.game.labels(), &stats);
            line.extend(numbers.into_iter().map(|(key, value)| (measure_of(game.folder(), &key), value.into())));
        }
        line.insert("left_out_games".to_owned(), mean(sums.left_out, sums.games()).into());
        line.insert("without_signal".to_owned(), selection.without_signal.into());
        line.insert("reward_variance".to_owned(), selection.reward_variance.into());
        let Information { sum, games } = sums.information;
        let information = (games > 0.0).then(|| mean(sum, games));
        if let Some(nats) = information {
            line.insert("item_information".to_owned(), nats.into());
        }
        let broken =
            broken.or_else(|| broken_update_rule(&run.config.stop_when, selection.without_signal, information));
        if let Some(Against { update, games, score }) = against {
            line.insert("opponent_update".to_owned(), update.into());
            line.insert("opponent_games".to_owned(), games.into());
            line.insert("opponent_score".to_owned(), (score / games).into());
        }
        if run.inputs.thinks {
            line.insert("reasoning_tokens".to_owned(), mean(sums.reasoning, sums.utterances).into());
        }
        Ok(Self { line, episodes, seconds, broken_rule: broken })
    }

    /// A short note for the progress.
    pub(super) fn note(&self) -> String {
        let number = |key: &str| self.line.get(key).and_then(Value::as_f64);
        let shown = [("loss", "loss"), ("log_prob_gap_max", "gap"), ("entropy", "entropy")];
        let shown = shown.into_iter().filter_map(|(key, name)| Some(format!("{name} {:.4}", number(key)?)));
        shown.collect::<Vec<_>>().join(", ")
    }
}

impl Results {
    /// What a line of `metrics.jsonl` has of one of the run's games.
    fn numbers(&self, labels: &Labels, stats: &GameStats) -> Vec<(String, f64)> {
        let Self { games, wins, rewards } = self;
        let seats = labels.seats.into_iter().flat_map(|seat| {
            let of = |sums: &[f64; SEATS]| mean(sums[seat.index()], *games);
            [(format!("{}_wins", seat.name()), of(wins)), (format!("{}_reward", seat.name()), of(rewards))]
        });
        let said = stats.all_speech();
        let others = [
            ("games", *games),
            ("ties", mean(games - wins.iter().sum::<f64>(), *games)),
            ("repeated_utterances", said.repeated_share().unwrap_or(0.0)),
            ("distinct_words", said.distinct_1.unwrap_or(0.0)),
        ];
        let thought = stats.all_reasoning().into_iter().flat_map(|thought| {
            let ReasoningStats { characters, empty, forced, unfinished } = thought;
            let shares =
                [("empty_reasoning", empty), ("forced_reasoning", forced), ("unfinished_reasoning", unfinished)];
            [("reasoning_characters", characters)].into_iter().chain(shares)
        });
        seats.chain(others.into_iter().chain(thought).map(|(key, value)| (key.to_owned(), value))).collect()
    }
}

fn mean(sum: f64, count: f64) -> f64 {
    if count > 0.0 { sum / count } else { 0.0 }
}

/// A line of `metrics.jsonl` without what belongs to one of the run's games. Without a step, since no utterance has an advantage, its
/// loss and the like are absent.
fn line(update: usize, sums: &Sums, step: Option<&StepRecord>, seconds: Seconds) -> Map<String, Value> {
    let mut line = Map::new();
    let mut add = |key: String, value: f64| line.insert(key, value.into());
    add("games".into(), sums.games());
    add("failed_games".into(), sums.failed);
    add("utterances".into(), sums.utterances);
    add("empty_utterances".into(), mean(sums.empty, sums.utterances));
    add("too_long_utterances".into(), mean(sums.too_long, sums.utterances));
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
        add("rank_load".into(), step.rank_load);
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
