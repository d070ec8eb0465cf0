//! The parts without tensors: judge, pluraliser, credit assignment.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spag_game::{Episode, JudgeKind, PromptSet, judge_episode, pluralize, read_episodes};
use spag_rewards::{CreditConfig, assign_rewards};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn episodes() -> Vec<Episode> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/judge_cases.jsonl");
    read_episodes(path).expect("the fixture is part of the repository")
}

fn judge(c: &mut Criterion) {
    let episodes = episodes();
    let mut group = c.benchmark_group("judge");
    group.throughput(Throughput::Elements(episodes.len() as u64));
    for kind in [JudgeKind::Paper, JudgeKind::WholeWord] {
        group.bench_function(kind.to_string(), |b| {
            b.iter(|| episodes.iter().filter(|e| judge_episode(kind, black_box(e)).is_ok()).count());
        });
    }
    group.finish();
}

fn plurals(c: &mut Criterion) {
    let words: Vec<String> = episodes().into_iter().map(|e| e.target_word).collect();
    let mut group = c.benchmark_group("pluralize");
    group.throughput(Throughput::Elements(words.len() as u64));
    group.bench_function("target words", |b| {
        b.iter(|| words.iter().map(|w| pluralize(black_box(w)).len()).sum::<usize>());
    });
    group.finish();
}

fn credit(c: &mut Criterion) {
    let (episodes, prompts, config) = (episodes(), PromptSet::default(), CreditConfig::default());
    let mut group = c.benchmark_group("assign-rewards");
    group.throughput(Throughput::Elements(episodes.len() as u64));
    group.bench_function("3000 episodes", |b| {
        b.iter(|| assign_rewards(black_box(&episodes), &prompts, &config).map(|c| c.samples.len()).unwrap_or(0));
    });
    group.finish();
}

criterion_group!(benches, judge, plurals, credit);
criterion_main!(benches);
