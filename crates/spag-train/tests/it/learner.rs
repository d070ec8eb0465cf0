//! The learner by itself: data by the call, several spans, what a policy sampled, and ranks with unequal data.

use std::path::Path;
use std::sync::Arc;

use crate::memory::join;
use candle_core::Tensor;
use spag_chat::PromptEncoder;
use spag_dist::ProcessGroup;
use spag_io::Silent;
use spag_model::checkpoint::{LoadOptions, WriteOptions, save_model};
use spag_model::dtype::WeightDtype;
use spag_model::generate::{MemoryBudget, Prompt, Sampling};
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};
use spag_rewards::SampleKind;
use spag_tests::{fixture, reserve_port};
use spag_train::loss::{Length, PolicyGradient, Ratio};
use spag_train::{
    Learner, ModelShard, Packing, ShardingPlan, Span, StepRecord, TrainConfig, TrainMethod, Trajectory, ZeroStage,
    add_reference, encode, train_samples,
};

use crate::training_fixture::cases;

/// A copy that training does not change the original of.
fn copy_of(model: &Model) -> Model {
    let copy = Model::init(model.config(), 1).unwrap();
    for (to, from) in copy.parameters().layers().iter().zip(model.parameters().layers()) {
        to.slice_set(from, 0, 0).unwrap();
    }
    copy
}

fn bits(model: &Model) -> Vec<Vec<u32>> {
    let bits = |layer: &Tensor| layer.to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
    model.parameters().layers().iter().map(bits).collect()
}

#[test]
fn steps_by_the_call_equal_those_of_a_run() {
    for case in cases(WeightDtype::F32) {
        let (tokenizer, config) =
            (&case.checkpoint.tokenizer, TrainConfig { method: TrainMethod::Sft, ..case.config.clone() });
        let each = config.per_device_train_batch_size * config.gradient_accumulation_steps;
        // Only whole micro-batches: those of a run have equal shares, whatever their sizes.
        let samples = &case.samples[..case.samples.len() / each * each];
        let (in_run, by_call) = (copy_of(&case.checkpoint.model), copy_of(&case.checkpoint.model));
        let mut records = Vec::new();
        let done = train_samples(&in_run, tokenizer, samples, None, &config, &mut records, &mut Silent).unwrap();
        let trajectories = encode(samples, 0, &PromptEncoder::new(tokenizer.clone()), config.max_length).unwrap();
        let mut learner = Learner::new(&by_call, &config, done.steps).unwrap();
        let steps: Vec<StepRecord> = trajectories.chunks(each).map(|step| learner.step(step).unwrap()).collect();
        assert!(done.steps > 2 && steps.len() == done.steps, "{}", case.name);
        assert_eq!(bits(&by_call), bits(&in_run), "{}", case.name);
        for (step, record) in steps.iter().zip(&records) {
            assert_eq!((step.step, step.loss, step.grad_norm), (record.step, record.loss, record.grad_norm));
        }
        assert_eq!(learner.position().tokens, done.tokens);
    }
}

#[test]
fn spans_of_one_trajectory_are_learned_as_trajectories_of_one_span() {
    let case = &cases(WeightDtype::F32)[0];
    let ids: Vec<u32> = (3..40).collect();
    let span = |tokens, reward| Span { ref_log_prob: Some(-4.0), ..Span::new(tokens, reward) };
    let spans = [span(5..9, 1.0), span(15..16, -0.5), span(20..37, 0.25)];
    let apart: Vec<Trajectory> =
        spans.iter().map(|span| Trajectory { row: 0, ids: ids.clone(), spans: vec![span.clone()] }).collect();
    let together = Trajectory { row: 0, ids, spans: spans.to_vec() };
    for method in [TrainMethod::Sft, TrainMethod::SftWithKl, TrainMethod::OfflinePo] {
        let config = TrainConfig { method, lm_kl_coeff: 0.2, per_device_train_batch_size: 8, ..TrainConfig::default() };
        let step = |trajectories: &[Trajectory]| {
            let model = copy_of(&case.checkpoint.model);
            Learner::new(&model, &config, 1).unwrap().step(trajectories).unwrap()
        };
        let (one, three) = (step(std::slice::from_ref(&together)), step(&apart));
        assert!(one.tokens * 3 == three.tokens && one.grad_norm > 0.0);
        for (got, want) in [(one.loss, three.loss), (one.grad_norm, three.grad_norm)] {
            assert!((got - want).abs() <= 2e-6 * want.abs(), "{method:?}: {got} against {want}");
        }
    }
}

/// A leaf is learned as in a sequence of its own that ends with it.
#[test]
fn a_leaf_is_learned_as_the_end_of_another_trajectory() {
    let case = &cases(WeightDtype::F32)[0];
    let ids: Vec<u32> = (3..40).collect();
    let sampled = |count| Some(vec![-3.0; count]);
    let span = |tokens: std::ops::Range<usize>, reward| Span {
        sampling_log_probs: sampled(tokens.len()),
        ref_token_log_probs: sampled(tokens.len()),
        ..Span::new(tokens, reward)
    };
    // Two utterances with an end token that the sequence does not have, and one that is only its end token.
    let (end, places) = (2, [(5..9, 1.0), (15..16, -0.5), (20..20, 0.25)]);
    let with_leaves = places.clone().map(|(tokens, reward)| Span {
        leaf: Some(end),
        sampling_log_probs: sampled(tokens.len() + 1),
        ref_token_log_probs: sampled(tokens.len() + 1),
        ..span(tokens, reward)
    });
    let together = Trajectory { row: 0, ids: ids.clone(), spans: with_leaves.to_vec() };
    let apart = places.map(|(tokens, reward)| {
        let ids = [&ids[..tokens.end], &[end]].concat();
        Trajectory { row: 0, ids, spans: vec![span(tokens.start..tokens.end + 1, reward)] }
    });
    let config = TrainConfig { per_device_train_batch_size: 8, ..TrainConfig::default() };
    for ratio in [Ratio::None, Ratio::Clip { low: 0.2, high: 0.2 }] {
        let step = |trajectories: &[Trajectory]| {
            let model = copy_of(&case.checkpoint.model);
            let loss = PolicyGradient { ratio, length: Length::Constant(16), kl: 0.1, sft: 0.0 };
            let learner = Learner::new(&model, &config, 1).unwrap().with_loss(Box::new(loss));
            { learner }.step(trajectories).unwrap()
        };
        let (one, three) = (step(std::slice::from_ref(&together)), step(&apart));
        assert_eq!((one.log_prob_gap.tokens, three.log_prob_gap.tokens), (8, 8));
        assert!(one.grad_norm > 0.0 && one.loss != 0.0);
        let gaps = [&one, &three].map(|step| (step.log_prob_gap.max, step.log_prob_gap.mean()));
        for (got, want) in
            [(one.loss, three.loss), (one.grad_norm, three.grad_norm), (gaps[0].0, gaps[1].0), (gaps[0].1, gaps[1].1)]
        {
            assert!((got - want).abs() <= 2e-6 * want.abs(), "{ratio:?}: {got} against {want}");
        }
    }
}

/// However trajectories of several spans are split into micro-batches, each span counts the same.
#[test]
fn a_step_is_the_mean_over_spans() {
    let case = &cases(WeightDtype::F32)[0];
    let ids: Vec<u32> = (3..40).collect();
    let trajectory = |spans: &[(usize, f64)]| Trajectory {
        row: 0,
        ids: ids.clone(),
        spans: spans.iter().map(|(start, reward)| Span::new(*start..start + 4, *reward)).collect(),
    };
    let all = [trajectory(&[(4, 1.0), (12, -0.5), (20, 2.0)]), trajectory(&[]), trajectory(&[(6, 0.5)])];
    let step = |micro_batch| {
        let config = TrainConfig { per_device_train_batch_size: micro_batch, ..TrainConfig::default() };
        let model = copy_of(&case.checkpoint.model);
        let loss = PolicyGradient { ratio: Ratio::None, length: Length::Own, kl: 0.0, sft: 0.0 };
        Learner::new(&model, &config, 1).unwrap().with_loss(Box::new(loss)).step(&all).unwrap()
    };
    let (one, several) = (step(3), step(1));
    for (got, want) in [(several.loss, one.loss), (several.grad_norm, one.grad_norm)] {
        assert!((got - want).abs() <= 2e-6 * want.abs(), "{got} against {want}");
    }
}

#[test]
fn what_an_engine_sampled_has_the_learners_log_probabilities_until_it_learns() {
    let checkpoint = Checkpoint::load(fixture("tiny-llama")).unwrap();
    let model = copy_of(&checkpoint.model);
    let config = GenerationConfig {
        max_new_tokens: 12,
        sampling: Sampling::Random { temperature: 1.0, top_k: None, top_p: None },
        ..GenerationConfig::default()
    };
    let (config, prompt) = (Arc::new(config), vec![1, 40, 41, 42]);
    let engine_config = EngineConfig::new(checkpoint.model.config(), 4, MemoryBudget::host());
    let mut engine = Engine::from_checkpoint(checkpoint, engine_config).unwrap();
    let request = |seed| Request { prompt: Prompt::Tokens(prompt.clone()), seed, config: config.clone() };
    let completions = engine.generate((0..4).map(request).collect()).unwrap();
    let trajectory = |(row, completion): (usize, spag_model::Completion)| {
        let ids = [&prompt[..], &completion.token_ids].concat();
        let span =
            Span { sampling_log_probs: Some(completion.sampling_log_probs), ..Span::new(prompt.len()..ids.len(), 1.0) };
        Trajectory { row, ids, spans: vec![span] }
    };
    let trajectories: Vec<Trajectory> = completions.into_iter().enumerate().map(trajectory).collect();
    let config = TrainConfig { learning_rate: 1e-2, ..TrainConfig::default() };
    let mut learner = Learner::new(&model, &config, 4).unwrap();
    let first = learner.step(&trajectories).unwrap().log_prob_gap;
    assert_eq!(first.tokens as usize, trajectories.iter().map(Trajectory::predicted).sum::<usize>());
    assert!(first.max < 1e-4 && first.mean() <= first.max, "{first:?}");
    let second = learner.step(&trajectories).unwrap().log_prob_gap;
    assert!(second.max > 1e-2, "{second:?}");
    let without = Trajectory { spans: vec![Span::new(4..5, 1.0)], ..trajectories[0].clone() };
    assert_eq!(learner.step(&[without]).unwrap().log_prob_gap.tokens, 0);
}

/// With exact attention, the log-probabilities of the first step have the bits of those at sampling, also where a leaf stands
/// in for the last token of an utterance, and the reference's have those of the learner.
#[test]
fn exact_attention_has_the_log_probabilities_of_sampling() {
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let options = LoadOptions { dtype, ..LoadOptions::default() };
        let load = || Checkpoint::load_with(fixture("tiny-llama"), &options).unwrap();
        let settings = GenerationConfig {
            max_new_tokens: 30,
            sampling: Sampling::at_temperature(1.0),
            ..GenerationConfig::default()
        };
        let settings = Arc::new(settings);
        let engine_config = EngineConfig::new(load().model.config(), 4, MemoryBudget::host());
        let mut engine = Engine::from_checkpoint(load(), engine_config).unwrap();
        let prompts: Vec<Vec<u32>> = (0..16).map(|prompt| (3..40 + 9 * prompt).collect()).collect();
        let requests = prompts.iter().zip(0..).map(|(prompt, seed)| Request {
            prompt: Prompt::Tokens(prompt.clone()),
            seed,
            config: settings.clone(),
        });
        let completions = engine.generate(requests.collect()).unwrap();
        let trajectory = |(row, (prompt, completion)): (usize, (&Vec<u32>, spag_model::Completion))| {
            let (last, said) = completion.token_ids.split_last().unwrap();
            let span = Span {
                leaf: Some(*last),
                // At temperature 1 without filters, the sampling distribution is the model's.
                sampling_log_probs: Some(completion.model_log_probs),
                ..Span::new(prompt.len()..prompt.len() + said.len(), 1.0)
            };
            Trajectory { row, ids: [prompt, said, &[50, 60, 70]].concat(), spans: vec![span] }
        };
        let mut all: Vec<Trajectory> = prompts.iter().zip(completions).enumerate().map(trajectory).collect();
        let config = TrainConfig {
            bf16: dtype == WeightDtype::Bf16,
            learning_rate: 1e-2,
            per_device_train_batch_size: 4,
            ..TrainConfig::default()
        };
        let reference = load().model;
        for packing in [Packing::None, Packing::Tree] {
            let config = TrainConfig { packing: Some(packing), ..config.clone() };
            let model = load().model;
            let loss =
                PolicyGradient { ratio: Ratio::Clip { low: 0.2, high: 0.2 }, length: Length::Own, kl: 0.1, sft: 0.0 };
            let learner = Learner::new(&model, &config, 4).unwrap();
            let mut learner = learner.with_exact_attention().with_loss(Box::new(loss));
            add_reference(learner.network(), reference.parameters(), &mut all).unwrap();
            let tokens: usize = all.iter().map(Trajectory::predicted).sum();
            assert!(tokens > 100, "{tokens}");
            for span in all.iter().flat_map(|one| &one.spans) {
                assert_eq!(span.ref_token_log_probs, span.sampling_log_probs);
                assert!(span.ref_log_prob.is_some());
            }
            let first = learner.step(&all).unwrap();
            // The prompts are prefixes of each other, four in a micro-batch.
            let computed = first.computed_tokens as f64 / first.tokens as f64;
            assert!(if packing == Packing::Tree { computed < 0.5 } else { computed == 1.0 }, "{computed}");
            let gap = first.log_prob_gap;
            assert_eq!((gap.max, gap.mean(), gap.tokens as usize), (0.0, 0.0, tokens), "{dtype:?}");
            let metric = |name| first.metrics.get(name).unwrap();
            assert_eq!((metric("importance_ratio_min"), metric("importance_ratio_max"), metric("kl")), (1.0, 1.0, 0.0));
            let second = learner.step(&all).unwrap();
            assert!(second.log_prob_gap.max > 1e-2 && second.metrics.get("kl").unwrap() > 0.0, "{dtype:?}: {second:?}");
        }
    }
}

/// Samples that begin alike, that are equal, and of which one is the beginning of another.
#[test]
fn trees_learn_as_samples_apart() {
    let case = &cases(WeightDtype::F32)[0];
    let ids: Vec<u32> = (3..60).collect();
    let sample = |row, ids: &[u32], begin: usize, reward| {
        let span = Span { ref_log_prob: Some(-4.0), ..Span::new(begin..ids.len(), reward) };
        Trajectory { row, ids: ids.to_vec(), spans: vec![span] }
    };
    let other = [&ids[..30], &[7, 9, 11, 2][..]].concat();
    let samples = [
        sample(0, &ids[..20], 12, 1.0),
        sample(1, &ids, 40, 0.5),
        sample(2, &other, 30, -0.25),
        sample(3, &ids, 40, 0.75),
        sample(4, &[9, 8, 7], 1, 1.0),
    ];
    for method in [TrainMethod::Sft, TrainMethod::SftWithKl, TrainMethod::OfflinePo] {
        let config = TrainConfig { method, lm_kl_coeff: 0.2, per_device_train_batch_size: 8, ..TrainConfig::default() };
        let step = |packing| {
            let model = copy_of(&case.checkpoint.model);
            let config = TrainConfig { packing: Some(packing), ..config.clone() };
            Learner::new(&model, &config, 1).unwrap().step(&samples).unwrap()
        };
        let (apart, tree) = (step(Packing::None), step(Packing::Tree));
        assert_eq!((tree.tokens, tree.computed_tokens), (apart.tokens, 56 + 3 + 2));
        assert_eq!((apart.computed_tokens, tree.loss), (apart.tokens, apart.loss), "{method:?}");
        assert!((tree.grad_norm - apart.grad_norm).abs() <= 1e-6 * apart.grad_norm, "{method:?}: {tree:?} {apart:?}");
    }
}

#[test]
fn ranks_with_unequal_data_learn_as_one_process() {
    let case = &cases(WeightDtype::F32)[0];
    let dir = tempfile::tempdir().unwrap();
    save_model(&case.checkpoint.model, dir.path(), WriteOptions::new(WeightDtype::F32)).unwrap();
    for packing in [Packing::None, Packing::Tree] {
        ranks_learn_as_one_process(&case.checkpoint.model, dir.path(), packing);
    }
}

fn ranks_learn_as_one_process(model: &Model, dir: &Path, packing: Packing) {
    let config = TrainConfig {
        method: TrainMethod::SftWithKl,
        per_device_train_batch_size: 2,
        packing: Some(packing),
        ..TrainConfig::default()
    };
    let trajectory = |row: usize| {
        let span = Span { kind: SampleKind::Sft, ref_log_prob: Some(-3.0), ..Span::new(4..9 + row, 1.0) };
        Trajectory { row, ids: (0..9 + row as u32).collect(), spans: vec![span] }
    };
    let all: Vec<Trajectory> = (0..5).map(trajectory).collect();
    let alone = copy_of(model);
    let mut learner = Learner::new(&alone, &config, 3).unwrap();
    let want: Vec<StepRecord> = (0..3).map(|_| learner.step(&all).unwrap()).collect();
    // In the last of three ranks nothing is played.
    let parts = [&all[..4], &all[4..], &[]];
    let mut first_stage = None;
    for stage in [0, 1, 3] {
        let port = reserve_port();
        let run = |rank: usize| {
            let group: Arc<dyn ProcessGroup> = Arc::new(join(rank, parts.len(), port));
            steps_of_rank(dir, stage, group, &config, parts[rank])
        };
        let ranks: Vec<Vec<StepRecord>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..parts.len()).map(|rank| scope.spawn(move || run(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ranks.iter().all(|rank| *rank == ranks[0]), "stage {stage}: ranks report the same step");
        assert_eq!(first_stage.get_or_insert_with(|| ranks[0].clone()), &ranks[0], "stages give the same bits");
        for (got, want) in ranks[0].iter().zip(&want) {
            assert_eq!((got.step, got.tokens, got.skipped), (want.step, want.tokens, false));
            for (got, want) in [(got.loss, want.loss), (got.grad_norm, want.grad_norm)] {
                assert!((got - want).abs() <= 1e-5 * want.abs(), "stage {stage}: {got} against {want}");
            }
        }
    }
}

fn steps_of_rank(
    dir: &Path,
    stage: u64,
    group: Arc<dyn ProcessGroup>,
    config: &TrainConfig,
    own: &[Trajectory],
) -> Vec<StepRecord> {
    let plan = ShardingPlan { stage: ZeroStage::try_from(stage).unwrap(), ..ShardingPlan::default() };
    let shard = ModelShard { dir, adapter: None, options: &LoadOptions::default(), plan, group };
    // Threads of its own: a rank that waits for others must not hold up theirs.
    let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    threads.install(|| {
        let mut learner = Learner::load(shard, config, 3).unwrap();
        (0..3).map(|_| learner.step(own).unwrap()).collect()
    })
}

#[test]
fn a_step_without_data_or_with_a_broken_trajectory_changes_nothing() {
    let model = copy_of(&cases(WeightDtype::F32)[0].checkpoint.model);
    let before = bits(&model);
    let mut learner = Learner::new(&model, &TrainConfig::default(), 3).unwrap();
    assert!(learner.step(&[]).unwrap_err().to_string().contains("without trajectories"));
    let broken = Trajectory { row: 6, ids: vec![1, 2], spans: vec![Span::new(1..3, 1.0)] };
    assert!(learner.step(&[broken]).unwrap_err().to_string().contains("row 7"));
    let unknown = Trajectory { row: 0, ids: vec![1, u32::MAX], spans: vec![Span::new(1..2, 1.0)] };
    assert!(learner.step(&[unknown]).is_err());
    assert_eq!((bits(&model), learner.position().step), (before, 0));
}
