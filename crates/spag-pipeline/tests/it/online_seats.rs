//! On-policy runs with a policy for each seat.

use std::path::Path;

use crate::common::tiny::run_config;
use crate::online::{ADAPTER, killed_and_resumed, lines, number};
use spag_io::Silent;
use spag_model::Model;
use spag_model::adapter::Adapter;
use spag_model::checkpoint::load_model;
use spag_model::dtype::WeightDtype;
use spag_pipeline::run;

const SEATS: [&str; 1] = ["online.policies=seats"];

fn values(adapter: &Adapter) -> Vec<Vec<f32>> {
    adapter.weights().layers().iter().map(|layer| layer.to_vec1().unwrap()).collect()
}

fn weights(model: &Model) -> Vec<Vec<f32>> {
    let rounded = model.to_dtype(WeightDtype::Bf16).unwrap().to_dtype(WeightDtype::F32).unwrap();
    rounded.parameters().layers().iter().map(|layer| layer.to_vec1().unwrap()).collect()
}

#[test]
fn interrupted_run_of_two_policies_ends_with_the_same_files() {
    let more = [
        "online.loss=ppo",
        "online.minibatches=2",
        "online.kl_coeff=0.1",
        "online.reference_updates=2",
        "online.save_updates=1",
        "train.bf16=true",
    ];
    let root = killed_and_resumed(&[&ADAPTER[..], &SEATS, &more].concat());
    let run_dir = root.path().join("straight");
    let metrics = lines(&run_dir.join("metrics.jsonl"));
    let mut learned = [0.0; 2];
    for line in &metrics {
        assert_eq!(number(line, "log_prob_gap_max"), 0.0, "{line}");
        let of = |key: &str| {
            ["first_seat", "second_seat"].map(|seat| line.get(format!("{seat}_{key}")).and_then(|n| n.as_f64()))
        };
        let sum = |key: &str| of(key).into_iter().flatten().sum::<f64>();
        assert_eq!((sum("tokens"), sum("samples")), (number(line, "tokens"), number(line, "samples")), "{line}");
        learned = std::array::from_fn(|seat| learned[seat] + of("samples")[seat].unwrap_or_default());
        assert!(of("log_prob_gap_max").into_iter().flatten().all(|gap| gap == 0.0), "{line}");
    }
    assert!(learned.iter().all(|samples| *samples > 20.0), "{learned:?}");
    assert!(metrics.iter().any(|line| number(line, "kl_reference") != 0.0));
    let im = run_dir.join("im/model");
    let mut sums = Vec::new();
    for folder in ["spag-1", "spag-1/second-seat", "spag-2", "spag-2/second-seat"].map(|stage| run_dir.join(stage)) {
        let base = load_model(&im).unwrap().to_dtype(WeightDtype::Bf16).unwrap();
        Adapter::load_for(&folder, &im).unwrap().merge_into(base.parameters()).unwrap();
        assert!(weights(&base) == weights(&load_model(folder.join("model")).unwrap()), "{}", folder.display());
        sums.push(weights(&base));
    }
    assert!((0..4).all(|one| (0..one).all(|other| sums[one] != sums[other])));
}

/// In a game of one move only the first seat speaks: its adapter is then that of a run with one policy, and the other one stays new.
#[test]
fn each_adapter_learns_from_its_seat_alone() {
    let root = tempfile::tempdir().unwrap();
    let adapters = |name: &str, more: &[&str]| {
        let all = [
            "method=online",
            "online.updates=3",
            "online.games_per_update=8",
            "online.save_updates=1",
            "online.estimator=rae",
            "evaluation.self_play_games=4",
            "imitation.source=random",
            "sft.share=0",
            r#"games=[{game = "nim", game_options = "piles=[1]"}]"#,
        ];
        let config = run_config(&root.path().join(name), &[&all[..], &ADAPTER, more].concat());
        run(&config, &mut Silent).unwrap();
        let dir = &config.run_dir;
        let adapter = |stage: &str| Adapter::load_for(dir.join(stage), dir.join("im/model")).unwrap();
        let all =
            (adapter("spag-1"), Path::exists(&dir.join("spag-1/second-seat")).then(|| adapter("spag-1/second-seat")));
        (all, lines(&dir.join("metrics.jsonl")))
    };
    let ((one, none), _) = adapters("one", &[]);
    let ((first, second), metrics) = adapters("seats", &SEATS);
    assert!(none.is_none());
    assert!(values(&first) == values(&one));
    // B is 0 until an adapter learns.
    let moved = |adapter: &Adapter| -> bool {
        let layers = adapter.weights().layout().layers.iter().enumerate();
        let mut all = layers.flat_map(|(layer, own)| (1..own.views.len()).step_by(2).map(move |at| (layer, at)));
        all.any(|(layer, at)| {
            let b = adapter.weights().view(layer, at).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            b.iter().any(|value| *value != 0.0)
        })
    };
    assert_eq!([moved(&first), moved(&second.unwrap())], [true, false], "{metrics:?}");
    for line in &metrics {
        assert!(line.get("second_seat_loss").is_none() && number(line, "first_seat_samples") > 0.0, "{line}");
        assert_eq!(line["loss"], line["first_seat_loss"]);
    }
}

/// The last model against itself is two players, and each seat of a match has its own.
#[test]
fn evaluation_plays_each_seat_with_its_own_model() {
    let root = tempfile::tempdir().unwrap();
    let all = ["method=online", "online.updates=2", "online.games_per_update=8", "train.learning_rate=0.3"];
    let config = run_config(&root.path().join("run"), &[&ADAPTER[..], &all, &SEATS].concat());
    run(&config, &mut Silent).unwrap();
    let first = config.run_dir.join("spag-1/model");
    let second = config.run_dir.join("spag-1/second-seat/model");
    let games = |name: &str| std::fs::read(config.run_dir.join("eval").join(name)).unwrap();
    let before = ["spag-1-vs-im.jsonl", "im-vs-spag-1.jsonl", "spag-1-vs-spag-1.jsonl"].map(games);
    // The same games if the model of the second seat is the model of the first, but for those in which it plays.
    for file in std::fs::read_dir(&first).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, second.join(path.file_name().unwrap())).unwrap();
    }
    std::fs::remove_dir_all(config.run_dir.join("eval")).unwrap();
    run(&config, &mut Silent).unwrap();
    let after = ["spag-1-vs-im.jsonl", "im-vs-spag-1.jsonl", "spag-1-vs-spag-1.jsonl"].map(games);
    assert_eq!([0, 1, 2].map(|at| before[at] == after[at]), [true, false, false]);
}
