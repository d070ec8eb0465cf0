//! An engine with rows of different adapters in one batch: each row is bit-identical to a batch with its adapter alone,
//! and close to the merged model. Adapters are added and removed while it runs.

use std::sync::Arc;

use crate::common::{bits, checkpoint, engine_config, mixed_requests, random_adapter};
use candle_core::Device;
use spag_model::adapter::Adapter;
use spag_model::checkpoint::LoadOptions;
use spag_model::dtype::WeightDtype;
use spag_model::generate::{AdapterChoice, Event, RequestError};
use spag_model::params::{Adapted, AdapterWeights};
use spag_model::{Checkpoint, Completion, Engine, Generate, GenerationConfig, Request};
use spag_tests::fixture;

/// Adapters of different ranks, scales and modules.
fn adapters(checkpoint: &Checkpoint) -> Vec<(&'static str, Adapter)> {
    let random = |rank, modules: &[&str], seed| random_adapter(&checkpoint.model, rank, modules, seed);
    let attention = Adapter::load(fixture("peft/attention"), &checkpoint.model.config().architecture).unwrap();
    let all = random(16, &["all-linear"], 1);
    vec![("attention", attention), ("all", all), ("mlp", random(3, &["gate_proj", "down_proj"], 2))]
}

fn asked(adapter: &AdapterChoice) -> Vec<Request> {
    mixed_requests(adapter, 3, 1)
}

fn choices(adapters: &[(&'static str, Adapter)]) -> Vec<AdapterChoice> {
    let named = adapters.iter().map(|(name, _)| AdapterChoice::named(name));
    [AdapterChoice::Base, AdapterChoice::Own].into_iter().chain(named).collect()
}

fn load(dtype: WeightDtype) -> Checkpoint {
    Checkpoint::load_with(fixture("tiny-llama"), &LoadOptions { device: Device::Cpu, dtype }).unwrap()
}

fn engine(checkpoint: &Checkpoint, adapters: &[(&str, Adapter)], steps: usize) -> Engine {
    let setting = spag_model::EngineConfig { max_step_tokens: steps, max_running: 50, ..engine_config(16) };
    let mut engine = Engine::new(checkpoint, setting).unwrap();
    for (name, adapter) in adapters {
        engine.add_adapter(name, adapter).unwrap();
    }
    engine
}

#[test]
fn rows_of_several_adapters_have_the_bits_of_batches_of_their_own() {
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let checkpoint = load(dtype);
        let adapters = adapters(&checkpoint);
        // Interleaved, so that rows of one adapter are not adjacent by chance.
        let asked: Vec<Vec<Request>> = choices(&adapters).iter().map(asked).collect();
        let mixed: Vec<Request> =
            (0..asked[0].len()).flat_map(|at| asked.iter().map(move |of| of[at].clone())).collect();
        for steps in [512, 23] {
            let together = engine(&checkpoint, &adapters, steps).generate(mixed.clone()).unwrap();
            for (choice, requests) in asked.iter().enumerate() {
                let alone = engine(&checkpoint, &adapters, 512).generate(requests.clone()).unwrap();
                let own = together.iter().skip(choice).step_by(asked.len());
                assert_eq!(own.map(bits).collect::<Vec<_>>(), alone.iter().map(bits).collect::<Vec<_>>());
            }
        }
    }
}

/// The completions of an engine without adapters on the merged model.
fn of_merged(adapter: Option<&Adapter>, requests: Vec<Request>) -> Vec<Completion> {
    let merged = checkpoint();
    if let Some(adapter) = adapter {
        adapter.merge_into(merged.model.parameters()).unwrap();
    }
    let base = |request: Request| {
        let config = GenerationConfig { adapter: AdapterChoice::Base, ..(*request.config).clone() };
        Request { config: Arc::new(config), ..request }
    };
    engine(&merged, &[], 512).generate(requests.into_iter().map(base).collect()).unwrap()
}

#[test]
fn rows_have_the_tokens_and_log_probabilities_of_the_merged_model() {
    let checkpoint = checkpoint();
    let adapters = adapters(&checkpoint);
    let names = choices(&adapters);
    let mixed: Vec<Request> = names.iter().flat_map(asked).collect();
    let found = engine(&checkpoint, &adapters, 512).generate(mixed).unwrap();
    let per = found.len() / names.len();
    let mut of_base = Vec::new();
    for (at, choice) in names.iter().enumerate() {
        let adapter = at.checked_sub(2).map(|at| &adapters[at].1);
        let wanted = of_merged(adapter, asked(choice));
        let mut differ = 0;
        for (found, wanted) in found[at * per..].iter().zip(&wanted) {
            assert_eq!(found.token_ids, wanted.token_ids, "{choice:?}");
            let prompt = |done: &Completion| done.prompt_log_probs.clone().unwrap_or_default();
            let prompts = prompt(found).into_iter().flatten().zip(prompt(wanted).into_iter().flatten());
            let prompts = prompts.map(|(a, b)| (a.log_prob, b.log_prob));
            let sampled = found.model_log_probs.iter().copied().zip(wanted.model_log_probs.iter().copied());
            for (a, b) in sampled.chain(prompts) {
                assert!((a - b).abs() < 1e-4, "{choice:?}: {a}, not {b}");
            }
        }
        if at == 0 {
            of_base = wanted.iter().map(bits).collect();
        } else {
            differ += wanted.iter().map(bits).zip(&of_base).filter(|(own, base)| own != *base).count();
            assert_eq!(differ == wanted.len(), at > 1, "{choice:?}");
        }
    }
}

/// The next completion of an engine.
fn next(engine: &mut Engine) -> Completion {
    loop {
        for (_, event) in engine.step().unwrap() {
            if let Event::Finished(done) = event {
                return done;
            }
        }
    }
}

#[test]
fn adapters_come_and_go_while_requests_run() {
    let checkpoint = checkpoint();
    let adapters = adapters(&checkpoint);
    let request = |name: &str| asked(&AdapterChoice::named(name)).remove(0);
    let alone = |name: &str| engine(&checkpoint, &adapters, 512).generate(vec![request(name)]).unwrap().remove(0);
    let mut running = engine(&checkpoint, &adapters[..1], 512);
    assert_eq!(running.adapters().collect::<Vec<_>>(), ["attention"]);
    running.submit(request("attention")).unwrap();
    running.step().unwrap();
    let unknown = running.submit(request("all")).unwrap_err();
    assert!(matches!(&unknown, RequestError::UnknownAdapter { name, .. } if name == "all"));
    assert!(unknown.to_string().contains("`all`") && unknown.to_string().contains("attention"), "{unknown}");
    running.add_adapter("all", &adapters[1].1).unwrap();
    running.submit(request("all")).unwrap();
    running.step().unwrap();
    let twice = running.add_adapter("all", &adapters[1].1).unwrap_err().to_string();
    assert!(twice.contains("`all` is loaded already"), "{twice}");
    // Both have started; the names are free for other adapters, and the requests complete unchanged.
    running.remove_adapter("attention").unwrap();
    running.remove_adapter("all").unwrap();
    assert!(running.remove_adapter("all").unwrap_err().to_string().contains("there are none"));
    running.add_adapter("all", &adapters[2].1).unwrap();
    assert!(running.submit(request("attention")).is_err());
    let mut done = [next(&mut running), next(&mut running)].map(|done| bits(&done)).to_vec();
    let mut expected = ["attention", "all"].map(|name| bits(&alone(name))).to_vec();
    done.sort();
    expected.sort();
    assert_eq!(done, expected);
    // The pages of the adapter that had the name before are not found.
    let other = running.generate(vec![request("all")]).unwrap().remove(0);
    assert_eq!((bits(&other), other.cached_tokens), (bits(&alone("mlp")), 0));
    let again = running.generate(vec![request("all")]).unwrap().remove(0);
    assert!(again.cached_tokens > 0);
    assert_eq!(bits(&again), bits(&other));
}

/// The engine's own adapter follows refreshes, also for waiting requests; named ones and the base are unchanged.
#[test]
fn own_adapter_is_refreshed_unmerged() {
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let checkpoint = load(dtype);
        let adapters = adapters(&checkpoint);
        let base = checkpoint.model.parameters();
        let ask = |choice: &AdapterChoice| asked(choice).remove(0);
        let mut running = engine(&checkpoint, &adapters, 512);
        let mut done = |choice: &AdapterChoice| running.generate(vec![ask(choice)]).unwrap().remove(0);
        let of_base = bits(&done(&AdapterChoice::Base));
        assert_eq!(bits(&done(&AdapterChoice::Own)), of_base);
        for (version, (name, adapter)) in adapters.iter().enumerate() {
            let matrices = adapter.weights().to_dtype(dtype).unwrap();
            let adapter = AdapterWeights { places: adapter.places(), weights: &matrices };
            let waits = running.submit(ask(&AdapterChoice::Own)).unwrap();
            running.refresh(&Adapted { base, adapter }, version as u64 + 5).unwrap();
            matrices.set_zero().unwrap();
            assert!(running.step().unwrap().iter().all(|(id, _)| *id == waits));
            let refused = running.refresh(&Adapted { base, adapter }, 99).unwrap_err().to_string();
            assert!(refused.contains("have started"), "{refused}");
            let waited = next(&mut running);
            let mut done = |choice: &AdapterChoice| running.generate(vec![ask(choice)]).unwrap().remove(0);
            let named = bits(&done(&AdapterChoice::named(name)));
            let own = done(&AdapterChoice::Own);
            assert_eq!((bits(&waited), bits(&own), own.policy_version), (named.clone(), named, version as u64 + 5));
            assert!(bits(&own) != of_base && bits(&done(&AdapterChoice::Base)) == of_base);
        }
        running.refresh(base, 40).unwrap();
        assert_eq!(bits(&running.generate(vec![ask(&AdapterChoice::Own)]).unwrap()[0]), of_base);
    }
}

#[test]
fn adapters_for_other_models_are_refused() {
    let mut running = engine(&checkpoint(), &[], 512);
    for family in ["qwen3", "gemma3", "baichuan2-7b"] {
        let other = Checkpoint::load(fixture("families").join(family)).unwrap();
        let adapter = random_adapter(&other.model, 2, &["all-linear"], 1);
        let said = running.add_adapter("other", &adapter).unwrap_err().to_string();
        assert!(said.contains("the adapter"), "{family}: {said}");
    }
    assert_eq!(running.adapters().count(), 0);
    assert_eq!(running.generate(asked(&AdapterChoice::Own)).unwrap().len(), asked(&AdapterChoice::Own).len());
}
