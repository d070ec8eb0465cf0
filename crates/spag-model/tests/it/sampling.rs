//! Sampling as in the reference: temperature 1.2 over the 50 likeliest tokens of a real model.

use std::collections::BTreeSet;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::generate::Sampling;
use spag_model::{GenerationConfig, Request};
use spag_ops::sample::{Distribution, SampleParams, sample};

use crate::common::{cases, checkpoint, engine_config, run};

const DRAWS: usize = 100_000;
const TEMPERATURE: f64 = 1.2;
const TOP_K: usize = Sampling::REFERENCE_TOP_K;
/// The 99.9% quantile of the chi-squared distribution with 49 degrees of freedom.
const CHI_SQUARED: f64 = 85.35;

/// ln p of every token after the prompt of the first case: its logits, up to a constant.
fn log_probs() -> Vec<f32> {
    let (checkpoint, case) = (checkpoint(), cases().remove(0));
    let size = checkpoint.model.config().architecture.vocab_size as u32;
    let targets = Targets {
        rows: vec![case.input_ids.len() as u32 - 1; size as usize],
        tokens: (0..size).collect(),
        ..Targets::default()
    };
    checkpoint.model.log_probs(&PackedBatch::new([case.input_ids.as_slice()]), &targets).unwrap()
}

/// The 50 likeliest tokens with their renormalized probabilities at temperature 1.2.
fn expected(logits: &[f32]) -> Vec<(u32, f64)> {
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    order.truncate(TOP_K);
    let weight = |token: u32| (f64::from(logits[token as usize]) / TEMPERATURE).exp();
    let total: f64 = order.iter().map(|token| weight(*token)).sum();
    order.into_iter().map(|token| (token, weight(token) / total)).collect()
}

#[test]
fn draws_of_a_position_follow_the_softmax_of_its_50_likeliest_tokens() {
    let logits = log_probs();
    let expected = expected(&logits);
    let sampling = Sampling::random(TEMPERATURE, TOP_K, None);
    let mut rng = ChaCha8Rng::seed_from_u64(50);
    let mut counts = vec![0usize; logits.len()];
    let rows = 1000;
    let same = Tensor::from_vec(logits.repeat(rows), (rows, logits.len()), &Device::Cpu).unwrap();
    for _ in 0..DRAWS / rows {
        let params: Vec<SampleParams> = (0..rows)
            .map(|_| SampleParams {
                distribution: Distribution { sampling, ..Distribution::default() },
                uniform: rng.random(),
                adjustment: None,
            })
            .collect();
        for drawn in sample(&same, &params).unwrap() {
            counts[drawn.unwrap().token as usize] += 1;
        }
    }
    let drawn: BTreeSet<u32> = (0..counts.len() as u32).filter(|token| counts[*token as usize] > 0).collect();
    assert_eq!(drawn, expected.iter().map(|(token, _)| *token).collect::<BTreeSet<u32>>());
    let chi_squared: f64 = expected
        .iter()
        .map(|(token, probability)| {
            let expected = probability * DRAWS as f64;
            assert!(expected > 5.0, "token {token} is too rare for this test");
            (counts[*token as usize] as f64 - expected).powi(2) / expected
        })
        .sum();
    assert!(chi_squared < CHI_SQUARED, "{chi_squared}");
}

#[test]
fn engine_draws_only_the_50_likeliest_tokens() {
    let likeliest: BTreeSet<u32> = expected(&log_probs()).into_iter().map(|(token, _)| token).collect();
    let drawn = |top_k: usize| -> BTreeSet<u32> {
        let sampling = Sampling::random(TEMPERATURE, top_k, None);
        let config = Arc::new(GenerationConfig { max_new_tokens: 1, sampling, ..GenerationConfig::default() });
        let prompt = cases().remove(0).prompt;
        let request = |seed| Request { prompt: prompt.clone().into(), seed, config: config.clone() };
        run(engine_config(1), (0..3000).map(request).collect()).iter().map(|done| done.token_ids[0]).collect()
    };
    let restricted = drawn(TOP_K);
    assert!(restricted.is_subset(&likeliest) && restricted.len() > 40, "{}", restricted.len());
    assert!(!drawn(0).is_subset(&likeliest), "0 means all tokens");
}
