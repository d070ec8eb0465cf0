//! Settings that must not change the result (recomputation, threads, micro-batches, an interrupted reference pass), and
//! errors.

use std::path::Path;

use spag_chat::PromptEncoder;
use spag_io::Silent;
use spag_model::Checkpoint;
use spag_model::checkpoint::load_model;
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_rewards::{Sample, read_samples, write_samples};
use spag_tests::fixture;
use spag_train::{
    DataOrder, Dataset, Error, IntervalStrategy, Record, Start, TrainConfig, TrainJob, TrainMethod, run, train_samples,
};

pub(crate) fn samples() -> Vec<Sample> {
    read_samples(fixture("training/train_items.json")).unwrap()
}

pub(crate) fn config(method: TrainMethod) -> TrainConfig {
    TrainConfig {
        method,
        lm_kl_coeff: 0.2,
        lm_sft_coeff: 0.5,
        per_device_train_batch_size: 4,
        num_train_epochs: 1.0,
        learning_rate: 1e-3,
        max_length: 256,
        save_strategy: IntervalStrategy::No,
        ..TrainConfig::default()
    }
}

/// The losses of a run in memory and the weights it ends with.
fn end_of(config: &TrainConfig, samples: &[Sample]) -> (Vec<f64>, Vec<f32>) {
    let Checkpoint { model, tokenizer } = Checkpoint::load(fixture("tiny-llama")).unwrap();
    let model = model.to_dtype(config.dtype()).unwrap().deep_copy().unwrap();
    let reference = load_model(fixture("tiny-llama/ref")).unwrap();
    let mut records: Vec<Record> = Vec::new();
    train_samples(&model, &tokenizer, samples, Some(&reference), config, &mut records, &mut Silent).unwrap();
    let weights = model.to_dtype(WeightDtype::F32).unwrap();
    let all = weights.parameters().layers().iter().flat_map(|layer| layer.to_vec1::<f32>().unwrap()).collect();
    (records.iter().map(|record| record.loss).collect(), all)
}

fn farthest(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn recomputation_gives_the_same_bits() {
    for method in [TrainMethod::Sft, TrainMethod::SftWithKl, TrainMethod::OfflinePo] {
        let config = config(method);
        for kept in [0, 1] {
            let recomputed = config.clone().with_activations(Activations::KeepLast(kept));
            assert_eq!(end_of(&config, &samples()), end_of(&recomputed, &samples()), "{method:?}, {kept} kept");
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    // Without AVX-512, large products use a library that splits its sums among the threads.
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        let end = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| end_of(&config(TrainMethod::OfflinePo), &samples()))
        };
        let one = end(1);
        for threads in [2, 3, 7] {
            assert_eq!(end(threads), one, "{threads} threads");
        }
    }
}

#[test]
fn split_into_micro_batches_gives_the_same_losses() {
    // Rows of one kind, and as many in each micro-batch: the mean of the micro-batches' means is the mean of all.
    let games: Vec<Sample> =
        samples().into_iter().filter(|s| s.kind == spag_rewards::SampleKind::Game).take(16).collect();
    assert_eq!(games.len(), 16);
    for method in [TrainMethod::SftWithKl, TrainMethod::OfflinePo] {
        let whole = TrainConfig { per_device_train_batch_size: 8, ..config(method) };
        let (losses, weights) = end_of(&whole, &games);
        for (size, count) in [(4, 2), (2, 4), (1, 8)] {
            let split =
                TrainConfig { per_device_train_batch_size: size, gradient_accumulation_steps: count, ..whole.clone() };
            let (split_losses, split_weights) = end_of(&split, &games);
            for (a, b) in losses.iter().zip(&split_losses) {
                assert!((a - b).abs() <= 1e-5 * a.abs().max(1e-2), "{method:?} {size}×{count}: {a} {b}");
            }
            // AdamW normalizes by the gradient's size: an element whose gradient is rounding noise may differ by up to a
            // step.
            let apart = weights.iter().zip(&split_weights).filter(|(a, b)| (*a - *b).abs() > 1e-5).count();
            let worst = farthest(&weights, &split_weights);
            assert!(apart * 10_000 < weights.len() && worst < 2e-4, "{method:?} {size}×{count}: {apart}, {worst:e}");
        }
    }
}

#[test]
fn bf16_weights_follow_f32_ones() {
    let config = config(TrainMethod::OfflinePo);
    let (losses, weights) = end_of(&config, &samples());
    let (rounded_losses, rounded) = end_of(&TrainConfig { bf16: true, ..config }, &samples());
    assert!(rounded.iter().all(|x| half::bf16::from_f32(*x).to_f32() == *x), "the weights are bf16 numbers");
    for (a, b) in losses.iter().zip(&rounded_losses) {
        assert!((a - b).abs() < 0.05, "{a} {b}");
    }
    // Without f32 master weights, steps of 1e-3 would be lost on weights of the order of 1.
    let moved = farthest(&weights, &rounded);
    assert!(moved > 0.0 && moved < 2e-2, "{moved}");
}

pub(crate) fn job(dir: &Path, config: TrainConfig, samples: &[Sample]) -> TrainJob {
    let data = dir.join("samples.json");
    write_samples(&data, samples).unwrap();
    TrainJob {
        ref_model_name_or_path: Some(fixture("tiny-llama/ref")),
        ..TrainJob::new(fixture("tiny-llama"), data, dir.join("out"), config)
    }
}

#[test]
fn interrupted_reference_pass_resumes_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    // Several forward passes of the reference model.
    let many: Vec<Sample> = (0..4).flat_map(|_| samples()).collect();
    let order = DataOrder::Sequential;
    let config = TrainConfig { max_steps: Some(1), data_order: order, ..config(TrainMethod::SftWithKl) };
    let job = TrainJob { start: Start::Overwrite, ..job(dir.path(), config.clone(), &many) };
    run(&job, &mut Silent).unwrap();
    let kept = || {
        let mut files = std::fs::read_dir(dir.path().join("out/ref_log_probs")).unwrap();
        let file = files.next().unwrap().unwrap().path();
        assert!(files.next().is_none(), "one file a data set");
        file
    };
    let whole = std::fs::read_to_string(kept()).unwrap();
    assert!(whole.lines().count() > 2, "several passes: {whole}");
    let weights = std::fs::read(dir.path().join("out/model.safetensors")).unwrap();
    // Torn in the middle of a line, as by a kill.
    std::fs::write(kept(), &whole[..whole.len() / 2]).unwrap();
    run(&job, &mut Silent).unwrap();
    assert_eq!(std::fs::read_to_string(kept()).unwrap(), whole);
    assert!(std::fs::read(dir.path().join("out/model.safetensors")).unwrap() == weights);
    // What is in the file is not computed again.
    std::fs::write(kept(), whole.replacen(":[-", ":[-1", 1)).unwrap();
    run(&job, &mut Silent).unwrap();
    assert!(std::fs::read(dir.path().join("out/model.safetensors")).unwrap() != weights);
    // Another length is another file.
    std::fs::write(kept(), &whole).unwrap();
    run(&TrainJob { config: TrainConfig { max_length: 128, ..config }, ..job }, &mut Silent).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("out/ref_log_probs")).unwrap().count(), 2);
}

#[test]
fn non_finite_steps_are_skipped_and_three_in_a_row_stop_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows: Vec<Sample> = samples().into_iter().take(8).collect();
    // A finite weight whose gradient overflows f32.
    rows[2].weight = 1e300;
    let config = TrainConfig {
        per_device_train_batch_size: 1,
        data_order: DataOrder::Sequential,
        logging_steps: 2,
        ..config(TrainMethod::SftWithKl)
    };
    let summary = run(&job(dir.path(), config.clone(), &rows), &mut Silent).unwrap();
    assert_eq!((summary.steps, summary.skipped_steps), (8, 1));
    let metrics = std::fs::read_to_string(dir.path().join("out/metrics.jsonl")).unwrap();
    assert!(metrics.lines().nth(1).unwrap().contains("\"skipped_steps\":1"), "{metrics}");
    let weights = load_model(dir.path().join("out")).unwrap();
    for layer in weights.parameters().layers() {
        assert!(layer.to_vec1::<f32>().unwrap().iter().all(|x| x.is_finite()));
    }
    rows[3].weight = 1e300;
    rows[4].weight = 1e300;
    // A finished model is not replaced unasked.
    let again = job(dir.path(), config, &rows);
    let error = run(&again, &mut Silent).unwrap_err().to_string();
    assert!(error.contains("holds a model") && error.contains("--overwrite_output_dir"), "{error}");
    let error = run(&TrainJob { start: Start::Overwrite, ..again }, &mut Silent).unwrap_err();
    let Error::NotFinite { count: 3, step: 5, samples, .. } = &error else { panic!("{error}") };
    assert_eq!(samples, &[4]);
}

#[test]
fn sample_without_a_predicted_label_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Vec<Sample> = samples().into_iter().take(6).collect();
    // Cut on the left, a sample of two tokens still ends with EOS, which is predicted.
    let config = TrainConfig { max_length: 2, ..config(TrainMethod::Sft) };
    let summary = run(&job(dir.path(), config, &rows), &mut Silent).unwrap();
    assert!(summary.dropped.is_empty() && summary.steps == 2);
    // Of one token nothing is left to predict it from.
    let tokenizer = Checkpoint::load(fixture("tiny-llama")).unwrap().tokenizer;
    let error = Dataset::new(&rows, &PromptEncoder::new(tokenizer.clone()), 1).unwrap_err().to_string();
    assert!(error.contains("6 rows, none with a target to predict"), "{error}");
    let one = TrainConfig { max_length: 1, ..self::config(TrainMethod::Sft) };
    assert!(matches!(run(&job(dir.path(), one, &rows), &mut Silent), Err(Error::Setting { name: "max_length", .. })));
}

#[test]
fn evaluation_does_not_change_training() {
    let dir = tempfile::tempdir().unwrap();
    let config = TrainConfig { per_device_eval_batch_size: 3, logging_steps: 1000, ..config(TrainMethod::OfflinePo) };
    let plain = job(dir.path(), config.clone(), &samples());
    run(&plain, &mut Silent).unwrap();
    let weights = std::fs::read(dir.path().join("out/model.safetensors")).unwrap();
    let eval = TrainJob {
        eval_data_path: plain.train_data_path.clone(),
        config: TrainConfig { evaluation_strategy: IntervalStrategy::Steps, eval_steps: Some(5), ..config },
        start: Start::Overwrite,
        ..plain
    };
    let summary = run(&eval, &mut Silent).unwrap();
    assert!(std::fs::read(dir.path().join("out/model.safetensors")).unwrap() == weights);
    let text = std::fs::read_to_string(dir.path().join("out/metrics.jsonl")).unwrap();
    let losses: Vec<f64> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["eval_loss"].as_f64())
        .collect();
    assert_eq!(losses.len(), summary.steps / 5);
    assert!(losses.last() < losses.first(), "trained on the same samples, the loss falls: {losses:?}");
}
