//! The parts without tensors: judge, pluraliser, credit assignment, games by the protocol of `spag env`.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spag_game::session::{Reply, Session};
use spag_game::{Episode, JudgeKind, Taboo, judge_episode, pluralize, read_episodes};
use spag_rewards::{AssignJob, CreditConfig, assign_rewards, assign_rewards_in_files};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn fixture() -> PathBuf {
    spag_tests::fixture("judge_cases.jsonl")
}

fn episodes() -> Vec<Episode> {
    read_episodes(fixture()).expect("the fixture is part of the repository")
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
    let words: Vec<String> = episodes().into_iter().map(|e| e.item).collect();
    let mut group = c.benchmark_group("pluralize");
    group.throughput(Throughput::Elements(words.len() as u64));
    group.bench_function("target words", |b| {
        b.iter(|| words.iter().map(|w| pluralize(black_box(w)).len()).sum::<usize>());
    });
    group.finish();
}

fn credit(c: &mut Criterion) {
    let (episodes, game, config) = (episodes(), Taboo::default(), CreditConfig::default());
    let mut group = c.benchmark_group("assign-rewards");
    group.throughput(Throughput::Elements(episodes.len() as u64));
    group.bench_function("3000 episodes in memory", |b| {
        b.iter(|| assign_rewards(black_box(&episodes), &game, &config).map(|c| c.samples.len()).unwrap_or(0));
    });
    // To a device, so that the disk is not what is measured.
    let job = AssignJob { input: fixture(), sft: None, output: "/dev/null".into(), outcomes: None };
    let all = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    for threads in [NonZeroUsize::MIN, all] {
        group.bench_function(format!("3000 episodes from file to file, {threads} threads"), |b| {
            b.iter(|| {
                assign_rewards_in_files(black_box(&job), &game, &config, threads).map(|s| s.samples()).unwrap_or(0)
            });
        });
    }
    group.finish();
}

/// Random legal games as lines of requests.
fn requests(game: &str) -> Vec<String> {
    let mut session = Session::new(game, None).expect("the game needs no data");
    let mut lines = Vec::new();
    for seed in 0..100usize {
        let mut line = format!(r#"{{"type":"reset","seed":{seed}}}"#);
        for turn in 0.. {
            session.respond(line.as_bytes());
            lines.push(line);
            let Some(legal) = session.legal_actions() else { break };
            let action = &legal[(seed * 31 + turn * 7) % legal.len()];
            line = format!(r#"{{"type":"step","action":"{action}"}}"#);
        }
    }
    lines
}

/// From a line of JSON to a line of JSON, with the observations of the player to move.
fn env(c: &mut Criterion) {
    let mut group = c.benchmark_group("env");
    for game in ["tic-tac-toe", "connect-four", "nim", "kuhn-poker"] {
        let lines = requests(game);
        group.throughput(Throughput::Elements(lines.len() as u64));
        group.bench_function(game, |b| {
            let mut session = Session::new(game, None).expect("the game needs no data");
            let mut answered = |line: &String| matches!(session.respond(black_box(line.as_bytes())), Reply::Line(_));
            b.iter(|| lines.iter().filter(|line| answered(line)).count());
        });
    }
    group.finish();
}

criterion_group!(benches, judge, plurals, credit, env);
criterion_main!(benches);
