//! Log-probabilities of the training pass are bit-identical to those at sampling, on every CPU path and for all batches,
//! chunks, pages and shared prefixes.

use std::sync::Arc;

use crate::common::{config, random_adapter};
use candle_core::Device;
use spag_model::batch::{PackedBatch, Targets};
use spag_model::checkpoint::{LoadOptions, load_config};
use spag_model::dtype::WeightDtype;
use spag_model::generate::{Distribution, LogProbs, PrefixSharing, PromptRange, Sampling, SumOrder};
use spag_model::model::{Activations, Arithmetic};
use spag_model::params::{Adapted, AdapterWeights, WeightSource};
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Model, Request};
use spag_ops::CpuPath;
use spag_tests::{fixture, test_process};

/// Runs [`on_this_path`] in a process for each path: the path is fixed per process.
#[test]
fn training_has_the_log_probabilities_of_sampling_on_every_path() {
    for path in CpuPath::ALL.into_iter().filter(|path| path.is_available()) {
        let mut test = test_process("exact::on_this_path");
        test.env("SPAG_CPU", path.name());
        let output = test.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{path}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        eprintln!("{path}: tested");
    }
}

/// Tests the path selected by `SPAG_CPU`, in a child process.
#[test]
fn on_this_path() {
    if std::env::var_os("SPAG_CPU").is_none() {
        return;
    }
    let mut folders: Vec<_> =
        std::fs::read_dir(fixture("families")).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Too slow without fused multiply-add.
    folders.retain(|path| path.is_dir() && CpuPath::selected().unwrap() != CpuPath::Portable);
    // Sampled texts that become long are computed with other frequencies afterwards.
    folders.retain(|path| load_config(path).unwrap().architecture.long_after().is_none());
    folders.push(fixture("tiny-llama"));
    for folder in folders {
        for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
            let load = || Checkpoint::load_with(&folder, &LoadOptions { device: Device::Cpu, dtype }).unwrap();
            let what = format!("{}, {dtype:?}", folder.display());
            let checkpoint = load();
            let base = checkpoint.model.parameters();
            let adapter = random_adapter(&checkpoint.model, 5, &["all-linear"], 3);
            let matrices = adapter.weights().to_dtype(dtype).unwrap();
            let adapter = AdapterWeights { places: adapter.places(), weights: &matrices };
            for (weights, with) in [(base as &dyn WeightSource, ""), (&Adapted { base, adapter }, ", with an adapter")]
            {
                let (compared, differing) = compare(&checkpoint, weights, load);
                assert!(compared > 500, "{what}{with}: {compared}");
                assert_eq!(differing, 0, "{what}{with}: {differing} of {compared} differ");
            }
        }
    }
}

/// Compares log-probabilities of prompts and of sampled tokens: returns how many there are, and how many differ.
fn compare(checkpoint: &Checkpoint, weights: &dyn WeightSource, load: impl Fn() -> Checkpoint) -> (usize, usize) {
    // Shared prefixes, and lengths around pages, chains and tiles.
    let encode = |text: &str| checkpoint.tokenizer.encode_prompt(text, Default::default()).unwrap();
    let rules =
        encode(&"Two players take turns. The first one knows a word, which the other one has to find. ".repeat(3));
    let turns = ["What is it?", "It has four legs, and knights ride on it.", "世界 🐎 ok", ""];
    let mut prompts: Vec<Vec<u32>> = turns.map(|turn| [rules.clone(), encode(turn)].concat()).into();
    prompts.push(vec![3; 40]);
    prompts.push(encode("a"));
    let log_probs = LogProbs { prompt: Some(PromptRange::All), top: 0 };
    let drawn = [(1.0, 0, None), (0.7, 20, None), (1.3, 0, Some(0.9)), (0.9, 0, None)];
    let requests: Vec<Request> = drawn
        .iter()
        .zip(0..)
        .flat_map(|((temperature, top_k, top_p), seed)| {
            let settings = config(Sampling::random(*temperature, *top_k, *top_p));
            let settings = GenerationConfig { log_probs: log_probs.clone(), max_new_tokens: 40, ..settings };
            let config = Arc::new(GenerationConfig { min_new_tokens: 20, ..settings });
            prompts.iter().map(move |prompt| Request { prompt: prompt.clone().into(), seed, config: config.clone() })
        })
        .collect();
    let eos = checkpoint.tokenizer.eos_ids();
    let (mut compared, mut differing) = (0, 0);
    // Three page sizes; preemptions in the first, chunks of 17 tokens in the second, sequential execution in the third.
    let settings = [(16, 20, 200, PrefixSharing::On), (64, 3, 17, PrefixSharing::On), (48, 1, 500, PrefixSharing::Off)];
    // Adapters only change products, which `adapter_rows` compares over batches and chunks.
    let settings = if weights.adapter().is_some() { &settings[..1] } else { &settings[..] };
    for (page_size, max_running, max_step_tokens, prefix_sharing) in settings.iter().copied() {
        let pages = if page_size == 16 { 40 } else { 100 };
        let setting = EngineConfig {
            max_length: 400,
            page_size,
            pages,
            max_running,
            max_step_tokens,
            prefix_sharing,
            sum_order: SumOrder::Any,
        };
        let mut engine = Engine::new(&load(), setting).unwrap();
        if weights.adapter().is_some() {
            engine.refresh(weights, 1).unwrap();
        }
        let done = engine.generate(requests.clone()).unwrap();
        for (pair, requests) in done.chunks(2).zip(requests.chunks(2)) {
            let (found, bad) = of_training((&checkpoint.model, weights), pair, requests, eos);
            compared += found;
            differing += bad;
        }
    }
    (compared, differing)
}

/// Runs some completions as a training batch, and as a tree: returns the number of compared log-probabilities, and of those that
/// differ. Those of prompts are under the model's own distribution, those of other tokens under their sampling distribution.
fn of_training(
    (model, weights): (&Model, &dyn WeightSource),
    done: &[Completion],
    requests: &[Request],
    eos: &[u32],
) -> (usize, usize) {
    let (mut sequences, mut targets, mut sampled) = (Vec::new(), Targets::default(), Vec::<f32>::new());
    let mut first = 0;
    for (done, request) in done.iter().zip(requests) {
        let spag_model::generate::Prompt::Tokens(prompt) = &request.prompt else { unreachable!() };
        let tokens = [&prompt[..], &done.token_ids].concat();
        let of_prompt = done.prompt_log_probs.iter().flatten().flatten().map(|one| one.log_prob);
        sampled.extend(of_prompt);
        targets.distributions.resize(sampled.len(), Distribution::of_model());
        for at in 0..done.token_ids.len() {
            let distribution = request.config.distribution(at, eos);
            let drawn = if distribution.is_of_model() { &done.model_log_probs } else { &done.sampling_log_probs };
            sampled.push(drawn[at]);
            targets.distributions.push(distribution);
        }
        targets.rows.extend(first..first + tokens.len() as u32 - 1);
        targets.tokens.extend(&tokens[1..]);
        first += tokens.len() as u32;
        sequences.push(tokens);
    }
    let batch = PackedBatch::new(sequences.iter().map(Vec::as_slice));
    let (tree, rows) = PackedBatch::tree(sequences.iter().map(Vec::as_slice));
    let rows = rows.iter().flat_map(|rows| &rows[..rows.len() - 1]).copied().collect();
    let of_tree = Targets { rows, ..targets.clone() };
    let network = model.network().clone().with_attention(Arithmetic::F32);
    let (mut compared, mut differing) = (0, 0);
    for (batch, targets) in [(batch, targets), (tree, of_tree)] {
        let forward = network.forward(weights, batch, targets, Activations::Keep).unwrap();
        let learned = forward.read_log_probs().unwrap();
        assert_eq!(learned.len(), sampled.len());
        compared += learned.len();
        differing += learned.iter().zip(&sampled).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    }
    (compared, differing)
}
