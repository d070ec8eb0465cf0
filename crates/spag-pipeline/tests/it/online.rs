//! On-policy runs: their files, the same files after a kill, several processes, and settings that are refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::common::tiny::run_config;
use crate::run::{PanicAfter, contents};
use serde_json::Value;
use spag_io::Silent;
use spag_model::Model;
use spag_model::adapter::Adapter;
use spag_model::checkpoint::load_model;
use spag_model::dtype::WeightDtype;
use spag_pipeline::{RunConfig, run};

/// Two parts of three updates with eight games each.
const ONLINE: [&str; 6] = [
    "method=online",
    "online.updates=6",
    "online.eval_updates=3",
    "online.games_per_update=8",
    "online.save_updates=2",
    "train.learning_rate=1e-3",
];

/// An adapter in place of the weights.
pub(crate) const ADAPTER: [&str; 3] =
    ["train.lora_r=4", "train.lora_target_modules=all-linear", "train.learning_rate=1e-2"];

fn config(folder: &Path, more: &[&str]) -> RunConfig {
    run_config(folder, &[&ONLINE[..], more].concat())
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_update_learns_from_exactly_what_was_sampled() {
    let root = tempfile::tempdir().unwrap();
    let restricted = ["online.temperature=0.8", "online.top_k=20", "online.top_p=0.95", "self_play.min_new_tokens=2"];
    let adapter_bf16 = [&ADAPTER[..], &["train.bf16=true"]].concat();
    for (name, more) in [
        ("f32", &[][..]),
        ("bf16", &["train.bf16=true"]),
        ("restricted", &restricted),
        ("adapter", &ADAPTER),
        ("adapter-bf16", &adapter_bf16),
    ] {
        let config = config(&root.path().join(name), more);
        let report = run(&config, &mut Silent).unwrap();
        assert_eq!(report.first.matches.len(), 2);
        let text = spag_pipeline::render_text(&report);
        for part in
            ["Updates: means", "update 6", "entropy, nats a token", "over-long utterances", "won by the defender"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(report.updates.iter().map(|point| point.update).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        let metrics = lines(&config.run_dir.join("metrics.jsonl"));
        assert_eq!(metrics.len(), 6);
        let (mut compared, mut tokens_of) = (0, [0.0; 2]);
        for (at, line) in metrics.iter().enumerate() {
            assert_eq!((line["update"].as_u64(), line["games"].as_f64()), (Some(at as u64 + 1), Some(8.0)));
            if let Some(tokens) = line.get("log_prob_gap_tokens") {
                assert_eq!(
                    (&line["log_prob_gap_max"], &line["log_prob_gap_mean"]),
                    (&0.0.into(), &0.0.into()),
                    "{line}"
                );
                compared += tokens.as_f64().unwrap() as u64;
            }
            for (sum, key) in tokens_of.iter_mut().zip(["computed_tokens", "tokens"]) {
                *sum += line.get(key).and_then(Value::as_f64).unwrap_or(0.0);
            }
        }
        assert!(compared > 200, "{compared}");
        assert!(tokens_of[0] > 0.0 && tokens_of[0] < 0.9 * tokens_of[1], "trees: {tokens_of:?}");
        let parts = ["spag-1", "spag-2"].map(|stage| lines(&config.run_dir.join(stage).join("metrics.jsonl")));
        assert_eq!(parts.concat(), metrics);
        for (part, stage) in ["spag-1", "spag-2"].into_iter().enumerate() {
            let games = spag_game::read_episodes(config.run_dir.join(stage).join("episodes.jsonl")).unwrap();
            assert_eq!(games.len(), 24, "part {part}");
        }
    }
}

/// An adapter over quantised weights, which engines multiply as integers.
#[test]
fn quantised_policy_runs_if_its_gap_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let quantised = [&ADAPTER[..], &["train.quantize=q8_0", "online.loss=truncated"]].concat();
    let reported = config(&root.path().join("reported"), &[&quantised[..], &["online.log_prob_gap=report"]].concat());
    run(&reported, &mut Silent).unwrap();
    let gaps: Vec<f64> =
        lines(&reported.run_dir.join("metrics.jsonl")).iter().map(|line| number(line, "log_prob_gap_mean")).collect();
    assert!(gaps.len() == 6 && gaps.iter().all(|gap| *gap > 0.0 && *gap < 0.1), "{gaps:?}");
}

#[test]
fn interrupted_run_ends_with_the_same_files() {
    killed_and_resumed(&[]);
}

#[test]
fn interrupted_run_with_a_pool_minibatches_and_a_reference_ends_with_the_same_files() {
    killed_and_resumed(&[
        "online.opponent=pool",
        "online.opponent_share=0.5",
        "online.pool_every=1",
        "online.pool_size=2",
        "online.minibatches=2",
        "online.ppo_epochs=2",
        "online.loss=ppo",
        "online.kl_coeff=0.1",
        "online.temperature=0.8",
    ]);
}

/// Adapters alone are in checkpoints and in the pool; opponents are rows of the policy's engine.
#[test]
fn interrupted_run_of_an_adapter_ends_with_the_same_files() {
    let more = [
        "online.opponent=pool",
        "online.opponent_share=0.5",
        "online.pool_every=1",
        "online.pool_size=2",
        "online.loss=ppo",
        "online.kl_coeff=0.1",
        "train.bf16=true",
    ];
    let root = killed_and_resumed(&[&ADAPTER[..], &more].concat());
    let run_dir = root.path().join("straight");
    let metrics = lines(&run_dir.join("metrics.jsonl"));
    for line in &metrics {
        assert_eq!(number(line, "log_prob_gap_max"), 0.0, "{line}");
    }
    assert_eq!(number(&metrics[0], "kl_reference"), 0.0, "the reference is the model without the adapter");
    assert!(metrics.iter().any(|line| number(line, "kl_reference") != 0.0));
    let opponents: Vec<f64> = metrics.iter().map(|line| number(line, "opponent_update")).collect();
    assert!(opponents[0] == 0.0 && opponents.iter().any(|update| *update > 0.0), "{opponents:?}");
    for entry in std::fs::read_dir(run_dir.join("pool")).unwrap() {
        let folder = entry.unwrap().path();
        assert!(folder.join("adapter_model.safetensors").exists() && !folder.join("model.safetensors").exists());
    }
    // The adapter goes on over the imitation's weights, and the model of a part is their sum.
    let im = run_dir.join("im/model");
    let mut sums = Vec::new();
    for stage in ["spag-1", "spag-2"] {
        // In the format of the learner.
        let base = load_model(&im).unwrap().to_dtype(WeightDtype::Bf16).unwrap();
        let adapter = Adapter::load(run_dir.join(stage), &base.config().architecture).unwrap();
        assert_eq!(adapter.config().base(), Some(im.to_str().unwrap()));
        adapter.merge_into(base.parameters()).unwrap();
        let written = load_model(run_dir.join(stage).join("model")).unwrap();
        let values = |model: &Model| -> Vec<Vec<f32>> {
            let rounded = model.to_dtype(WeightDtype::Bf16).unwrap().to_dtype(WeightDtype::F32).unwrap();
            rounded.parameters().layers().iter().map(|layer| layer.to_vec1().unwrap()).collect()
        };
        assert!(values(&base) == values(&written), "{stage}");
        sums.push(values(&base));
    }
    assert!(sums[0] != sums[1]);
}

/// The reference is the policy of the second, fourth … update: then the divergence is 0 again, with the bits of the learner.
#[test]
fn interrupted_run_with_a_moving_reference_ends_with_the_same_files() {
    for more in [&[][..], &ADAPTER, &["train.bf16=true"]] {
        let settings = [
            "online.kl_coeff=0.2",
            "online.kl_in=zero_sum",
            "online.reference_updates=2",
            "online.sft_coeff=0.5",
            "online.save_updates=1",
            "online.information_games=3",
        ];
        let root = killed_and_resumed(&[&settings[..], more].concat());
        let run_dir = root.path().join("straight");
        let metrics = lines(&run_dir.join("metrics.jsonl"));
        let divergences: Vec<f64> = metrics.iter().map(|line| number(line, "kl_reference")).collect();
        for (update, divergence) in divergences.iter().enumerate() {
            assert_eq!(*divergence == 0.0, update % 2 == 0, "{more:?}: {divergences:?}");
        }
        for line in &metrics {
            assert!(number(line, "sft") > 0.0 && number(line, "log_prob_gap_max") == 0.0, "{line}");
            assert!(number(line, "item_information") <= f64::ln(3.0) + 1e-9, "{line}");
        }
        // References that nothing needs any more are gone.
        assert_eq!(std::fs::read_dir(run_dir.join("reference")).unwrap().count(), 0);
    }
}

#[test]
fn interrupted_run_that_plays_further_games_ends_with_the_same_files() {
    let more = [
        "game=kuhn-poker",
        "game_options=rounds=1 bets_count=true",
        "imitation.source=random",
        "imitation.games=40",
        "online.group_size=2",
        "online.estimator={name=\"group\",deviation=\"none\"}",
        "online.resample=2",
        "online.rewards={by=\"amounts\",invalid=-3}",
    ];
    let root = killed_and_resumed(&more);
    let run_dir = root.path().join("straight");
    let metrics = lines(&run_dir.join("metrics.jsonl"));
    assert!(
        metrics.iter().any(|line| number(line, "games") > 8.0 && number(line, "left_out_games") > 0.0),
        "{metrics:?}"
    );
    for line in &metrics {
        assert!((0.0..=1.0).contains(&number(line, "without_signal")), "{line}");
        assert!(number(line, "games") <= 24.0, "{line}");
    }
    // The games of a group have one deal, and draw their utterances apart.
    let episodes = spag_game::read_episodes(run_dir.join("spag-1/episodes.jsonl")).unwrap();
    let seeds: Vec<_> = episodes.iter().map(|episode| episode.extra["seed"].as_u64()).collect();
    let sampling: Vec<_> = episodes.iter().map(|episode| episode.extra.get("sampling_seed").cloned()).collect();
    assert!(seeds.chunks(2).all(|group| group[0] == group[1]), "{seeds:?}");
    assert!(sampling.chunks(2).all(|group| group[0].is_none() && group[1].is_some()), "{sampling:?}");
}

#[test]
fn a_share_of_decisive_games_leaves_out_ties() {
    let lines = metrics_of(&["online.decisive_share=1", "online.resample=1", "max_turns=2"]);
    // An utterance that is too long decides a game for the learner, which its verdict does not know.
    let left_out = |line: &Value| number(line, "games") * number(line, "left_out_games");
    assert!(
        lines.iter().all(|line| left_out(line) <= number(line, "games") * number(line, "ties") + 1e-9),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| left_out(line) > 0.0 && number(line, "games") > 8.0), "{lines:?}");
}

#[test]
fn scripted_players_guess_less_and_less_often() {
    let lines = metrics_of(&["online.opponent=scripted", "online.opponent_last_share=0"]);
    let games: Vec<f64> =
        lines.iter().map(|line| line.get("opponent_games").map_or(0.0, |_| number(line, "opponent_games"))).collect();
    assert_eq!(games, [8.0, 6.0, 5.0, 3.0, 2.0, 0.0]);
}

#[test]
fn interrupted_run_on_balanced_words_ends_with_the_same_files() {
    let straight = killed_and_resumed(&["online.words=balanced", "online.group_size=2"]);
    let items: Vec<String> = ["spag-1", "spag-2"]
        .into_iter()
        .flat_map(|stage| {
            spag_game::read_episodes(straight.path().join("straight").join(stage).join("episodes.jsonl")).unwrap()
        })
        .map(|episode| episode.item)
        .collect();
    assert!(items.chunks(2).all(|group| group[0] == group[1]), "{items:?}");
    let groups: Vec<&String> = items.chunks(2).map(|group| &group[0]).collect();
    let cycled = groups.iter().zip(groups.iter().skip(8)).all(|(one, later)| one == later);
    assert!(!cycled && groups.len() == 24, "{groups:?}");
}

#[test]
fn interrupted_run_of_several_games_ends_with_the_same_files() {
    let games = r#"games=[{game = "nim", game_options = "piles=[1]", share = 3}, {game = "kuhn-poker"}]"#;
    killed_and_resumed(&[
        games,
        "imitation.source=random",
        "sft.share=0",
        "online.opponent=pool",
        "online.opponent_share=0.5",
        "online.pool_every=2",
    ]);
}

/// Returns the folder of the run that was not killed, `straight`.
pub(crate) fn killed_and_resumed(more: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let straight = config(&root.path().join("straight"), more);
    run(&straight, &mut Silent).unwrap();
    let expected = contents(&straight.run_dir);
    let interrupted = config(&root.path().join("interrupted"), more);
    let mut kills = 0;
    for steps in [2, 9, 15, 17, 19, 21, 24, 27, 31, 200, 200, 200, 200] {
        let killed = catch_unwind(AssertUnwindSafe(|| run(&interrupted, &mut PanicAfter { steps }))).is_err();
        kills += usize::from(killed);
        if !killed {
            break;
        }
    }
    assert!(kills >= 5, "{kills}");
    run(&interrupted, &mut Silent).unwrap();
    let found = contents(&interrupted.run_dir);
    for (name, values) in &expected {
        assert_eq!(Some(values), found.get(name), "{name}");
    }
    root
}

#[test]
fn settings_that_cannot_be_are_refused_before_anything_is_played() {
    let root = tempfile::tempdir().unwrap();
    for (more, expected) in [
        (&["online.estimator=group"][..], "group"),
        (&["online.group_size=3"], "online.group_size"),
        (&["self_play.player=openai-completions:http://localhost:1/v1#{stage}"], "self_play.player"),
        (&["online.estimator=raee"], "rae"),
        (&["online.opponent_model=nowhere"], "online.opponent_model"),
        (&["online.opponent=fixed", "online.opponent_model=nowhere"], "nowhere"),
        (&["online.opponent=pool", "online.opponent_share=0"], "online.opponent_share"),
        (&["online.opponent=pool", "online.control=sft_only"], "online.control"),
        (&["online.opponent=rival"], "rival"),
        (&["online.minibatches=9"], "online.minibatches"),
        (&["train.lora_r=4", "train.quantize=q8_0"], "online.log_prob_gap"),
        (&["train.quantize=q8_0", "online.log_prob_gap=report"], "set lora_r"),
        (&["online.ppo_epochs=2"], "importance ratios"),
        (&["online.resample=1"], "a group of one game has no rewards to differ"),
        (&["online.reference_updates=2"], "online.kl_coeff"),
        (&["online.reference_model=data/tiny-llama"], "online.kl_coeff"),
        (&["online.reference_model=nowhere", "online.kl_coeff=0.1"], "nowhere"),
        (&["online.sft_coeff=0.1", "sft.share=0"], "sft.share"),
        (&["online.kl_in=both"], "zero_sum"),
        (&["online.kl_coeff=-1"], "kl_coeff"),
        (&["online.temperature=0"], "online.temperature"),
        (&["online.top_k=5", "online.kl_coeff=0.1"], "online.top_k"),
        (&["online.top_p=0.9", "online.ppo_epochs=2", "online.loss=ppo"], "online.top_p"),
        (&["online.words=balanced", "game=nim", "imitation.source=random", "sft.share=0"], "online.words"),
        (
            &[
                "online.games_per_update=1",
                "imitation.source=random",
                "imitation.games=40",
                "sft.share=0",
                r#"games=[{game = "nim"}, {game = "kuhn-poker"}]"#,
            ],
            "online.games_per_update",
        ),
        (&["method=offline"], "method"),
        (&["online.policies=both"], "both"),
        (&["online.policies=seats"], "set train.lora_r"),
        (&["online.policies=seats", "train.lora_r=4", "online.opponent=pool"], "leave online.opponent out"),
        (&["online.policies=seats", "train.lora_r=4", "online.opponent=fixed"], "leave online.opponent out"),
        (
            &["online.policies=seats", "train.lora_r=4", "online.control=sft_only"],
            "play the games that they learn from",
        ),
    ] {
        let overrides: Vec<String> = ONLINE.iter().chain(more).map(|text| (*text).to_owned()).collect();
        let file = spag_tests::root().join("configs/tiny.toml");
        let error = RunConfig::load(&file, &overrides).unwrap_err().to_string();
        assert!(error.contains(expected), "{more:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn what_games_and_references_lack_is_refused_before_anything_is_played() {
    let other = spag_tests::root().join("data/games-llama");
    let other = format!("online.reference_model={}", other.display());
    for (more, expected) in [
        (&["online.kl_coeff=0.1", &*other][..], "another tokenizer"),
        (&["online.rewards={by=\"amounts\"}"], "taboo counts nothing"),
        (&["online.rewards={ties={draw=1}}"], "the ties are tie"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let config = config(&root.path().join("run"), more);
        let error = run(&config, &mut Silent).unwrap_err().to_string();
        assert!(error.contains(expected), "{more:?}: {error}");
        assert!(!config.run_dir.join("im").exists(), "{more:?}");
    }
}

/// The metrics of the updates of a run.
fn metrics_of(more: &[&str]) -> Vec<Value> {
    let root = tempfile::tempdir().unwrap();
    let config = config(&root.path().join("run"), more);
    run(&config, &mut Silent).unwrap();
    lines(&config.run_dir.join("metrics.jsonl"))
}

pub(crate) fn number(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"))
}

#[test]
fn an_opponent_plays_its_share_and_only_the_policy_learns() {
    let pool = metrics_of(&["online.opponent=pool", "online.opponent_share=0.5", "online.pool_every=1"]);
    assert_eq!(number(&pool[0], "opponent_update"), 0.0, "the first opponent is the model of the imitation");
    assert!(pool.iter().any(|line| number(line, "opponent_update") > 0.0), "{pool:?}");
    let fixed = metrics_of(&["online.opponent=fixed"]);
    let adapter = metrics_of(&[&ADAPTER[..], &["online.opponent=fixed"]].concat());
    for (all, games) in [(pool, 4.0), (fixed, 8.0), (adapter, 8.0)] {
        for line in &all {
            assert_eq!((number(line, "opponent_games"), number(line, "games")), (games, 8.0));
            assert!((0.0..=1.0).contains(&number(line, "opponent_score")));
            // The policy is the engine that plays, so its tokens are those that the learner reads.
            assert_eq!(number(line, "log_prob_gap_max"), 0.0, "{line}");
        }
        assert!(all.iter().map(|line| number(line, "log_prob_gap_tokens")).sum::<f64>() > 50.0);
    }
}

/// Its schedule begins with two steps of the least rate, and it shards and offloads.
#[test]
fn a_deepspeed_file_has_the_learners_schedule() {
    let file = spag_tests::root().join("configs/default_offload_opt_param.json");
    let rates = |more: &[&str]| -> Vec<f64> {
        let all = metrics_of(&[&["train.warmup_steps=4"][..], more].concat());
        all.iter().filter_map(|line| line.get("learning_rate")?.as_f64()).collect()
    };
    let (own, of_file) = (rates(&[]), rates(&[&format!("train.deepspeed={}", file.display())]));
    assert!(own[1] > 0.0 && of_file[..2] == [0.0, 0.0] && of_file[2] > 0.0, "{own:?} {of_file:?}");
}

#[test]
fn sft_only_imitates_games_of_a_model_that_stays() {
    let all = metrics_of(&["online.control=sft_only"]);
    assert_eq!(number(&all[0], "log_prob_gap_max"), 0.0);
    assert!(
        all.iter().skip(1).any(|line| number(line, "log_prob_gap_max") > 0.0),
        "the learner has not moved: {all:?}"
    );
    // With an advantage of 1 the loss is the surprisal of the winners' tokens.
    let learned = all.iter().filter(|line| number(line, "samples") > 0.0 && line.get("loss").is_some());
    assert!(learned.into_iter().all(|line| number(line, "loss") > 0.0));
}

#[test]
fn divergence_from_the_reference_grows_and_a_penalty_holds_it_back() {
    let with = |more: &[&str]| {
        let all = metrics_of(&[&["train.learning_rate=3e-3"][..], more].concat());
        assert_eq!(number(&all[0], "kl_reference"), 0.0, "{}", all[0]);
        all.iter().map(|line| number(line, "kl_reference").abs()).sum::<f64>()
    };
    let free = with(&["online.kl_coeff=1e-9"]);
    assert!(free > 1e-4, "{free}");
    assert!(with(&["online.kl_coeff=100"]) < free);
    let in_reward = with(&["online.kl_coeff=0.5", "online.kl_in=reward"]);
    assert!(in_reward != free && in_reward > 0.0);
}

#[test]
fn passes_in_minibatches_take_as_many_steps() {
    let more = ["online.minibatches=2", "online.ppo_epochs=3", "online.loss=ppo", "online.save_updates=1"];
    let root = tempfile::tempdir().unwrap();
    let config = config(&root.path().join("run"), &more);
    run(&config, &mut Silent).unwrap();
    let state = std::fs::read_dir(config.run_dir.join("spag-2")).unwrap();
    let last = state
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_prefix("checkpoint-")?.parse::<usize>().ok())
        .max();
    // Six updates of two by three steps; an update without an advantage takes none.
    assert!(last.is_some_and(|step| step > 18 && step <= 36), "{last:?}");
    for line in lines(&config.run_dir.join("metrics.jsonl")) {
        assert_eq!(number(&line, "log_prob_gap_max"), 0.0, "{line}");
        for key in ["distinct_words", "repeated_utterances", "too_long_utterances", "ties", "empty_utterances"] {
            assert!((0.0..=1.0).contains(&number(&line, key)), "{key}: {line}");
        }
    }
}
