//! New weights in a running engine: bit-identical to a new engine, without mixing versions.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{bits, checkpoint, config, engine_config, requests};
use candle_core::{Device, Tensor};
use spag_model::dtype::WeightDtype;
use spag_model::generate::{LogProbs, MemoryBudget, PromptRange, Sampling};
use spag_model::params::{FlatBuffers, Layout, WeightSource};
use spag_model::{Checkpoint, Engine, EngineConfig, Error, Generate, GenerationConfig, Model, Request, Result};
use spag_tests::fixture;

/// Other weights of the same architecture: a mixture with random ones.
fn other(model: &Model) -> Model {
    let random = Model::init(model.config(), 11).unwrap();
    let mixed = FlatBuffers::zeros(model.parameters().layout(), &Device::Cpu).unwrap();
    let layers = model.parameters().layers().iter().zip(random.parameters().layers());
    for (to, (layer, random)) in mixed.layers().iter().zip(layers) {
        to.slice_set(&((layer * 0.6).unwrap() + random).unwrap(), 0, 0).unwrap();
    }
    Model::from_parameters(model.config(), mixed).unwrap()
}

fn tiny(sampling: Sampling, log_probs: LogProbs) -> Vec<Request> {
    let config = GenerationConfig { max_new_tokens: 8, log_probs, ..config(sampling) };
    requests(&config).into_iter().take(6).collect()
}

/// Greedy and sampled requests, and one whose prompt is scored.
fn asked() -> Vec<Request> {
    let scored = LogProbs { prompt: Some(PromptRange::All), top: 0 };
    let mut all = tiny(Sampling::Greedy, LogProbs::default());
    all.extend(tiny(Sampling::at_temperature(1.1), LogProbs::default()));
    all.extend(tiny(Sampling::Greedy, scored).into_iter().take(1));
    all
}

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(fixture("families")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    folders.push(fixture("tiny-llama"));
    folders
}

/// All families, with tied, plain and normalised heads, biases and head norms; engines and weights in both number formats;
/// weights packed in the engine's own memory and in the checkpoint's. The first version's prompts are in the cache.
#[test]
fn refreshed_engines_compute_as_new_ones() {
    let formats = [WeightDtype::F32, WeightDtype::Bf16];
    let requests = asked();
    for folder in folders() {
        let Checkpoint { model, tokenizer } = Checkpoint::load(&folder).unwrap();
        let new = other(&model);
        let setting = EngineConfig { page_size: 16, ..EngineConfig::new(model.config(), 8, MemoryBudget::host()) };
        for (of_engine, of_weights) in formats.into_iter().flat_map(|a| formats.map(|b| (a, b))) {
            let with = |model: Model| Checkpoint { model, tokenizer: tokenizer.clone() };
            let weights = new.to_dtype(of_weights).unwrap();
            let expected = with(weights.to_dtype(of_engine).unwrap());
            let expected = Engine::new(&expected, setting).unwrap().generate(requests.clone()).unwrap();
            let old = with(model.to_dtype(of_engine).unwrap());
            let taken = with(old.model.deep_copy().unwrap());
            for mut engine in [Engine::new(&old, setting).unwrap(), Engine::from_checkpoint(taken, setting).unwrap()] {
                let before = engine.generate(requests.clone()).unwrap();
                // Twice: the first refresh may allocate memory for the engine, which the second one overwrites.
                for version in [7, 8] {
                    engine.refresh(weights.parameters(), version).unwrap();
                    let after = engine.generate(requests.clone()).unwrap();
                    let context = format!("{}, {of_engine} from {of_weights}", folder.display());
                    let mut differ = 0;
                    for ((after, expected), before) in after.iter().zip(&expected).zip(&before) {
                        assert_eq!(bits(after), bits(expected), "{context}");
                        assert_eq!((after.policy_version, before.policy_version), (version, 0));
                        differ += usize::from(bits(after) != bits(before));
                    }
                    assert!(differ > requests.len() / 2, "{context}: the versions do not differ");
                }
            }
            // The old weights, which the first engine may share, have not changed.
            let (kept, read) = (old.model.parameters(), model.to_dtype(of_engine).unwrap());
            for (kept, read) in kept.layers().iter().zip(read.parameters().layers()) {
                let wide = |layer: &Tensor| layer.to_dtype(candle_core::DType::F32).unwrap().to_vec1::<f32>().unwrap();
                assert!(wide(kept) == wide(read), "{}", folder.display());
            }
        }
    }
}

/// Running and preempted requests block a refresh and are not affected by the refusal. A request that waits for its first
/// step uses the new weights.
#[test]
fn versions_are_not_mixed_within_a_request() {
    let checkpoint = checkpoint();
    let new = other(&checkpoint.model);
    // Pages for one and a half requests, so that the second is preempted.
    let setting = EngineConfig { max_running: 2, ..engine_config(16) };
    let requests: Vec<Request> = tiny(Sampling::Greedy, LogProbs::default());
    let mut engine = Engine::new(&checkpoint, setting).unwrap();
    let alone = |model: &Model, request: &Request| {
        let checkpoint = Checkpoint { model: model.clone(), tokenizer: checkpoint.tokenizer.clone() };
        Engine::new(&checkpoint, setting).unwrap().generate(vec![request.clone()]).unwrap().remove(0)
    };
    let expected = alone(&checkpoint.model, &requests[0]);
    engine.submit(requests[0].clone()).unwrap();
    let mut refused = 0;
    let completion = loop {
        let events = engine.step().unwrap();
        if let Some((_, spag_model::generate::Event::Finished(completion))) = events.into_iter().next() {
            break completion;
        }
        let error = engine.refresh(new.parameters(), 1).unwrap_err();
        assert!(error.to_string().contains("1 requests have started with version 0"), "{error}");
        refused += 1;
    };
    assert!(refused > 2, "{refused}");
    assert_eq!((bits(&completion), completion.policy_version, engine.version()), (bits(&expected), 0, 0));
    // Not started.
    engine.submit(requests[1].clone()).unwrap();
    engine.refresh(new.parameters(), 5).unwrap();
    let completion = loop {
        if let Some((_, spag_model::generate::Event::Finished(completion))) = engine.step().unwrap().into_iter().next()
        {
            break completion;
        }
    };
    assert_eq!((bits(&completion), completion.policy_version), (bits(&alone(&new, &requests[1])), 5));
    // Aborted.
    let id = engine.submit(requests[2].clone()).unwrap();
    engine.step().unwrap();
    assert!(engine.refresh(checkpoint.model.parameters(), 6).is_err());
    engine.abort(id);
    engine.refresh(checkpoint.model.parameters(), 6).unwrap();
    assert_eq!(bits(&engine.generate(vec![requests[0].clone()]).unwrap()[0]), bits(&expected));
}

/// A preempted request waits, but has tokens of the old weights.
#[test]
fn preempted_requests_refuse_new_weights() {
    let checkpoint = checkpoint();
    let config = Arc::new(config(Sampling::at_temperature(1.0)));
    let all: Vec<Request> =
        requests(&config).into_iter().map(|request| Request { config: config.clone(), ..request }).collect();
    let setting = EngineConfig { pages: 24, max_running: 30, ..engine_config(16) };
    let mut engine = Engine::new(&checkpoint, setting).unwrap();
    let ids: Vec<_> = all.into_iter().map(|request| engine.submit(request).unwrap()).collect();
    while engine.stats().preemptions == 0 {
        engine.step().unwrap();
    }
    // Aborts the running requests, oldest first, since those are never preempted for younger ones.
    for id in ids {
        let load = engine.load();
        if load.running == 0 {
            break;
        }
        engine.abort(id);
    }
    assert!(engine.load().waiting > 0);
    let error = engine.refresh(checkpoint.model.parameters(), 1).unwrap_err();
    assert!(error.to_string().contains("abort them before a refresh"), "{error}");
}

#[test]
fn weights_of_another_architecture_change_nothing() {
    let checkpoint = checkpoint();
    let request = tiny(Sampling::Greedy, LogProbs::default()).remove(0);
    let mut engine = Engine::new(&checkpoint, engine_config(16)).unwrap();
    let before = engine.generate(vec![request.clone()]).unwrap();
    let foreign = Checkpoint::load(fixture("families/qwen3")).unwrap();
    let error = engine.refresh(foreign.model.parameters(), 1).unwrap_err();
    assert!(error.to_string().contains("`model.embed_tokens.weight`"), "{error}");
    let again = engine.generate(vec![request]).unwrap();
    assert_eq!((bits(&again[0]), again[0].policy_version), (bits(&before[0]), 0));
    assert!(again[0].cached_tokens > 0, "the cache was dropped");
}

/// Fails at a layer.
struct Failing<'a>(&'a FlatBuffers, usize);

impl WeightSource for Failing<'_> {
    fn layout(&self) -> &Layout {
        self.0.layout()
    }
    fn dtype(&self) -> WeightDtype {
        self.0.dtype()
    }
    fn device(&self) -> &Device {
        self.0.device()
    }
    fn unshard(&self, layer: usize, next: Option<usize>) -> Result<Tensor> {
        if layer == self.1 { Err(Error::Generation("the gather failed".into())) } else { self.0.unshard(layer, next) }
    }
    fn reshard(&self, layer: usize) {
        self.0.reshard(layer);
    }
}

/// After a failed refresh, an engine refuses to compute until a refresh succeeds.
#[test]
fn a_failed_refresh_stops_the_engine_until_the_next() {
    let checkpoint = checkpoint();
    let new = other(&checkpoint.model);
    let request = tiny(Sampling::Greedy, LogProbs::default()).remove(0);
    let mut engine = Engine::new(&checkpoint, engine_config(16)).unwrap();
    let before = engine.generate(vec![request.clone()]).unwrap();
    for layer in [0, 2, new.parameters().layout().layers.len() - 1] {
        let error = engine.refresh(&Failing(new.parameters(), layer), 3).unwrap_err();
        assert!(error.to_string().contains("the gather failed"), "{error}");
        let error = engine.generate(vec![request.clone()]).unwrap_err();
        assert!(error.to_string().contains("refresh the engine again"), "{error}");
        assert_eq!(engine.unfinished(), 0);
    }
    engine.refresh(checkpoint.model.parameters(), 4).unwrap();
    let again = engine.generate(vec![request]).unwrap();
    assert_eq!((bits(&again[0]), again[0].policy_version), (bits(&before[0]), 4));
}
