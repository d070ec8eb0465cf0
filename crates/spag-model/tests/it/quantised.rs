//! Engines with quantised weights: close to f32, bit-identical across batches and paths, with adapters, and refused refreshes.

use std::sync::Arc;

use crate::common::{bits, cases, checkpoint, engine_config, mixed_requests, random_adapter};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_model::generate::{AdapterChoice, LogProbs, PrefixSharing, PromptRange};
use spag_model::model::BlockFormat;
use spag_model::params::{Adapted, AdapterWeights};
use spag_model::{Checkpoint, Completion, Engine, EngineConfig, Generate, GenerationConfig, Request};
use spag_ops::CpuPath;
use spag_tests::{fixture, test_process};

const FORMATS: [BlockFormat; 6] = BlockFormat::ALL;
/// Prefix of the bits in the output of the test on one path.
const BITS: &str = "quantised bits: ";

fn quantised(checkpoint: Checkpoint, format: BlockFormat) -> Checkpoint {
    let Checkpoint { model, tokenizer } = checkpoint;
    Checkpoint { model: model.quantised(format).unwrap(), tokenizer }
}

fn asked(adapter: &AdapterChoice) -> Vec<Request> {
    mixed_requests(adapter, 4, 2)
}

/// Chunks, batches, preemption and threads give the bits of each request alone.
#[test]
fn results_do_not_depend_on_the_batch() {
    let base = engine_config(16);
    for format in FORMATS {
        let checkpoint = quantised(checkpoint(), format);
        let run = |setting, requests| Engine::new(&checkpoint, setting).unwrap().generate(requests).unwrap();
        let all = asked(&AdapterChoice::Base);
        let alone = EngineConfig { prefix_sharing: PrefixSharing::Off, ..base };
        let alone: Vec<_> = all.iter().map(|request| bits(&run(alone, vec![request.clone()])[0])).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for round in 0..4 {
            let mut order: Vec<usize> = (0..all.len()).collect();
            order.shuffle(&mut rng);
            let (max_running, max_step_tokens) = (rng.random_range(1..=30), rng.random_range(1..=200));
            let pages = if round == 0 { 24 } else { base.pages };
            let setting = EngineConfig { max_running, max_step_tokens, pages, ..base };
            let threads = rayon::ThreadPoolBuilder::new().num_threads(1 + round % 3).build().unwrap();
            let completions = threads.install(|| run(setting, order.iter().map(|index| all[*index].clone()).collect()));
            for (index, completion) in order.iter().zip(&completions) {
                assert_eq!(bits(completion), alone[*index], "{format}: request {index}, {setting:?}");
            }
        }
        // If the engine takes the checkpoint, layers are freed as they are quantised.
        let taken = Engine::from_checkpoint(checkpoint, base).unwrap().generate(all).unwrap();
        assert_eq!(taken.iter().map(bits).collect::<Vec<_>>(), alone, "{format}");
    }
}

/// ln p of the fixture's prompts.
fn scores(checkpoint: &Checkpoint) -> Vec<f32> {
    let log_probs = LogProbs { prompt: Some(PromptRange::All), top: 0 };
    let config = Arc::new(GenerationConfig { log_probs, max_new_tokens: 0, ..GenerationConfig::default() });
    let requests =
        cases().into_iter().map(|case| Request { prompt: case.prompt.into(), seed: 0, config: config.clone() });
    let setting = EngineConfig {
        max_length: checkpoint.model.config().architecture.max_position_embeddings,
        ..engine_config(16)
    };
    let completions = Engine::new(checkpoint, setting).unwrap().generate(requests.collect()).unwrap();
    let of =
        |done: &Completion| done.prompt_log_probs.iter().flatten().flatten().map(|t| t.log_prob).collect::<Vec<_>>();
    completions.iter().flat_map(of).collect()
}

#[test]
fn log_probabilities_are_near_those_of_f32() {
    let wanted = scores(&checkpoint());
    for (format, most, most_on_average) in [
        (BlockFormat::Q8_0, 0.16, 0.02),
        (BlockFormat::Q5_0, 0.8, 0.1),
        (BlockFormat::Q4_1, 1.6, 0.25),
        (BlockFormat::Q4_0, 2.0, 0.3),
    ] {
        let found = scores(&quantised(checkpoint(), format));
        assert_eq!(found.len(), wanted.len());
        let errors: Vec<f32> = found.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).abs()).collect();
        let (worst, mean) =
            (errors.iter().copied().fold(0f32, f32::max), errors.iter().sum::<f32>() / errors.len() as f32);
        eprintln!("{format}: {} log-probabilities differ by {mean:.5}, at most {worst:.5}", errors.len());
        assert!(worst > 0.0 && worst < most && mean < most_on_average, "{format}: {mean}, at most {worst}");
    }
}

/// Families with different heads, norms and biases: tied heads are quantised separately from the embedding.
#[test]
fn every_family_generates_from_quantised_weights() {
    let folders = std::fs::read_dir(fixture("families")).unwrap().map(|entry| entry.unwrap().path());
    let mut tested = 0;
    for folder in folders.filter(|path| path.is_dir()) {
        let load = || Checkpoint::load(&folder).unwrap();
        let Checkpoint { model, tokenizer } = load();
        let Ok(model) = model.quantised(BlockFormat::Q8_0) else { continue };
        let checkpoint = Checkpoint { model, tokenizer };
        let tokens = checkpoint.tokenizer.encode_prompt(&cases()[0].prompt, Default::default()).unwrap();
        let log_probs = LogProbs { prompt: Some(PromptRange::All), top: 0 };
        let config = Arc::new(GenerationConfig { log_probs, max_new_tokens: 0, ..GenerationConfig::default() });
        let request = Request { prompt: tokens.into(), seed: 0, config };
        let setting = EngineConfig { max_length: 200, ..engine_config(16) };
        let score = |checkpoint: &Checkpoint| {
            let done = Engine::new(checkpoint, setting).unwrap().generate(vec![request.clone()]).unwrap().remove(0);
            done.prompt_log_probs.iter().flatten().flatten().map(|token| token.log_prob).collect::<Vec<_>>()
        };
        let (found, wanted) = (score(&checkpoint), score(&load()));
        let worst = found.iter().zip(&wanted).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
        eprintln!("{}: at most {worst:.4}, kept {:?}", folder.display(), checkpoint.model.replaced_matrices());
        assert!(worst > 0.0 && worst < 0.2, "{}: {worst}", folder.display());
        tested += 1;
    }
    assert!(tested > 0);
}

/// Adapters are added in f32, unmerged: their rows differ from those of the base and do not depend on the batch.
#[test]
fn adapters_run_on_quantised_weights() {
    let checkpoint = quantised(checkpoint(), BlockFormat::Q8_0);
    let adapter = random_adapter(&checkpoint.model, 8, &["all-linear"], 3);
    let run = |requests: Vec<Request>| {
        let mut engine = Engine::new(&checkpoint, engine_config(16)).unwrap();
        engine.add_adapter("a", &adapter).unwrap();
        engine.generate(requests).unwrap().iter().map(bits).collect::<Vec<_>>()
    };
    let [base, adapted] = [AdapterChoice::Base, AdapterChoice::named("a")].map(|choice| asked(&choice));
    let mixed = base.iter().zip(&adapted).flat_map(|(base, adapted)| [base.clone(), adapted.clone()]).collect();
    let (mixed, base, adapted) = (run(mixed), run(base), run(adapted));
    for (index, pair) in mixed.chunks(2).enumerate() {
        assert_eq!((&pair[0], &pair[1]), (&base[index], &adapted[index]), "request {index}");
    }
    assert_ne!(base, adapted);
}

#[test]
fn a_refresh_is_refused_and_changes_nothing() {
    let checkpoint = quantised(checkpoint(), BlockFormat::Q4_0);
    let mut engine = Engine::new(&checkpoint, engine_config(16)).unwrap();
    let before: Vec<_> = engine.generate(asked(&AdapterChoice::Base)).unwrap().iter().map(bits).collect();
    let error = engine.refresh(checkpoint.model.parameters(), 3).unwrap_err().to_string();
    assert!(error.contains("quantised (q4_0) and cannot be refreshed"), "{error}");
    let after: Vec<_> = engine.generate(asked(&AdapterChoice::Base)).unwrap().iter().map(bits).collect();
    assert_eq!((engine.version(), before), (0, after));
}

/// A refresh over quantised weights takes only the adapter.
#[test]
fn a_refresh_of_an_adapter_is_its_rows() {
    let checkpoint = quantised(checkpoint(), BlockFormat::Q5_0);
    let adapter = random_adapter(&checkpoint.model, 8, &["all-linear"], 3);
    let mut engine = Engine::new(&checkpoint, engine_config(16)).unwrap();
    engine.add_adapter("a", &adapter).unwrap();
    let named = engine.generate(asked(&AdapterChoice::named("a"))).unwrap();
    let weights = AdapterWeights { places: adapter.places(), weights: adapter.weights() };
    engine.refresh(&Adapted { base: checkpoint.model.parameters(), adapter: weights }, 4).unwrap();
    let own = engine.generate(asked(&AdapterChoice::default())).unwrap();
    assert_eq!(engine.version(), 4);
    assert!(own.iter().map(bits).eq(named.iter().map(bits)));
}

/// Runs [`on_this_path`] in a process for each path: the path is fixed per process.
#[test]
fn every_path_has_the_same_bits() {
    let mut found = Vec::new();
    for path in CpuPath::ALL.into_iter().filter(|path| path.is_available()) {
        let output = test_process("quantised::on_this_path").env("SPAG_CPU", path.name()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{path}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        found.push((path, text.split_once(BITS).and_then(|(_, rest)| rest.lines().next()).unwrap().to_owned()));
    }
    assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].1), "{found:?}");
}

/// Tests the path selected by `SPAG_CPU`, in a child process.
#[test]
fn on_this_path() {
    if std::env::var_os("SPAG_CPU").is_none() {
        return;
    }
    let run = |format| {
        let mut engine = Engine::new(&quantised(checkpoint(), format), engine_config(16)).unwrap();
        engine.generate(asked(&AdapterChoice::Base)).unwrap().iter().map(bits).collect::<Vec<_>>()
    };
    println!("{BITS}{:?}", FORMATS.map(run));
}
