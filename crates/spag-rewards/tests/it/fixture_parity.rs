//! Rewards equal the reference's on 3,000 games, in memory and from file to file.

use std::num::NonZeroUsize;

use serde::Deserialize;
use spag_game::{Seat, Taboo, read_episodes};
use spag_rewards::{
    AssignJob, CreditConfig, RewardNorm, Sample, assign_rewards, assign_rewards_in_files, read_samples,
};
use spag_tests::{fixture, json};

#[derive(Deserialize)]
struct Expected {
    decay_weight: f64,
    samples: Vec<ExpectedSample>,
}

#[derive(Deserialize)]
struct ExpectedSample {
    target: String,
    reward: f64,
    role: Seat,
    weight: f64,
}

fn expected() -> Expected {
    serde_json::from_value(json(fixture("reward_cases.json"))).unwrap()
}

fn config() -> CreditConfig {
    CreditConfig { decay_weight: expected().decay_weight, seed: 1, ..CreditConfig::default() }
}

fn assert_as_expected(samples: &[Sample]) {
    let expected = expected().samples;
    assert_eq!(samples.len(), expected.len());
    for (row, (sample, expected)) in samples.iter().zip(&expected).enumerate() {
        assert_eq!(sample.target, expected.target, "row {row}");
        assert_eq!(sample.seat, Some(expected.role), "row {row}");
        // Equal to the last bit.
        assert_eq!((sample.reward, sample.weight), (expected.reward, expected.weight), "row {row}");
    }
}

#[test]
fn rewards_in_memory_equal_the_references() {
    let episodes = read_episodes(fixture("judge_cases.jsonl")).unwrap();
    let credited = assign_rewards(&episodes, &Taboo::default(), &config()).unwrap();
    assert_as_expected(&credited.samples);
    assert_eq!((credited.verdicts.len(), credited.summary.episodes()), (episodes.len(), episodes.len()));
    assert_eq!(credited.summary.samples(), credited.samples.len());
}

#[test]
fn rewards_in_files_equal_rewards_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let episodes = read_episodes(fixture("judge_cases.jsonl")).unwrap();
    let in_memory = assign_rewards(&episodes, &Taboo::default(), &config()).unwrap();
    for name in ["samples.json", "samples.jsonl"] {
        let job = AssignJob {
            input: fixture("judge_cases.jsonl"),
            sft: None,
            output: folder.path().join(name),
            outcomes: Some(folder.path().join("outcomes.jsonl")),
        };
        let summary = assign_rewards_in_files(&job, &Taboo::default(), &config(), NonZeroUsize::MIN).unwrap();
        assert_eq!(summary, in_memory.summary);
        assert_eq!(read_samples(&job.output).unwrap(), in_memory.samples);
        let outcomes = std::fs::read_to_string(job.outcomes.unwrap()).unwrap();
        let verdicts = in_memory.verdicts.iter().map(|verdict| serde_json::to_string(verdict).unwrap());
        assert_eq!(outcomes.lines().map(str::to_owned).collect::<Vec<_>>(), verdicts.collect::<Vec<_>>());
    }
}

#[test]
fn mean_norm_multiplies_rewards_by_the_number_of_utterances() {
    let episodes = read_episodes(fixture("judge_cases.jsonl")).unwrap();
    let game = Taboo::default();
    let sum = assign_rewards(&episodes, &game, &config()).unwrap().samples;
    let mean = assign_rewards(&episodes, &game, &CreditConfig { norm: RewardNorm::Mean, ..config() }).unwrap().samples;
    assert!((mean.iter().map(|sample| sample.reward).sum::<f64>() / mean.len() as f64 - 1.0).abs() < 1e-9);
    for (sum, mean) in sum.iter().zip(&mean) {
        assert_eq!((&sum.query, &sum.target, sum.weight), (&mean.query, &mean.target, mean.weight));
        let utterances = mean.reward / sum.reward;
        assert!((utterances - utterances.round()).abs() < 1e-9 && utterances > 0.5, "{utterances}");
    }
}
