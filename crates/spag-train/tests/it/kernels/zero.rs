//! ZeRO on devices: every stage, with and without offload, gives the same bits.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup, Single, TcpGroup, Token};
use spag_emulator::Place;
use spag_model::checkpoint::{LoadOptions, WriteOptions, save_model};
use spag_model::dtype::WeightDtype;
use spag_model::model::Activations;
use spag_model::{Model, ModelConfig};
use spag_tests::reserve_port;
use spag_train::{ModelShard, Placement, ShardingPlan, TimingConfig, ZeroStage, time_steps_of_rank};

/// Models that together have every option of an architecture, as additions to [`save`]'s `config.json`.
fn models() -> Vec<(Value, WeightDtype)> {
    vec![
        (json!({"num_key_value_heads": 2}), WeightDtype::F32),
        (json!({"num_key_value_heads": 2, "tie_word_embeddings": true}), WeightDtype::Bf16),
        (
            json!({"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 10, "attention_bias": true,
                "use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1}),
            WeightDtype::F32,
        ),
        (json!({"attention_bias": true, "mlp_bias": true, "num_key_value_heads": 1}), WeightDtype::Bf16),
        (json!({"model_type": "baichuan", "model_max_length": 64}), WeightDtype::Bf16),
    ]
}

/// A small model with these keys.
pub(super) fn save(dir: &Path, keys: &Value) {
    let mut all = json!({"hidden_size": 24, "intermediate_size": 40, "vocab_size": 50, "num_hidden_layers": 3,
        "num_attention_heads": 4});
    if keys.get("model_type").is_none_or(|kind| kind != "baichuan") {
        all["max_position_embeddings"] = 64.into();
    }
    all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let config: ModelConfig = serde_json::from_value(all).unwrap();
    save_model(&Model::init(&config, 3).unwrap(), dir, WriteOptions::new(WeightDtype::F32)).unwrap();
}

/// The loss of the third step, after two updates, on each of `ranks` threads, with parameters and gradients in these formats.
fn losses(dir: &Path, place: &Place, dtypes: [WeightDtype; 2], plan: ShardingPlan, ranks: usize) -> Vec<f64> {
    let [dtype, optim_grad_dtype] = dtypes;
    let port = reserve_port();
    let token = Token::random().unwrap();
    let rank = |rank: usize| {
        let group: Arc<dyn ProcessGroup> = match ranks {
            1 => Arc::new(Single),
            _ => {
                let env = LaunchEnv::on_this_machine(rank, ranks, port);
                let options = JoinOptions { token: Some(token.clone()), ..JoinOptions::default() };
                Arc::new(TcpGroup::join(&env, &options).unwrap())
            }
        };
        let options = LoadOptions { device: place.device().clone(), dtype };
        let timing = TimingConfig {
            batch: 2,
            seq: 12,
            steps: 3,
            warmup: 0,
            vocab_size: 50,
            seed: 5,
            activations: Activations::Keep,
            accumulation: 2,
            optim_grad_dtype,
        };
        let shard = ModelShard { dir, adapter: None, options: &options, plan, group };
        // One thread pool per rank, so that a waiting rank does not block the others' work.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let steps = || time_steps_of_rank(shard, None, &timing);
        place.run(|| if place.is_emulated() { steps() } else { pool.install(steps) })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks).map(|number| scope.spawn(move || rank(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap().loss).collect()
    })
}

/// All plans, and parameters on the host with an optimizer on the device, which is updated on the host too.
fn plans() -> Vec<ShardingPlan> {
    let mut plans = ShardingPlan::all();
    plans.push(ShardingPlan { stage: ZeroStage::Parameters, parameters: Placement::Host, ..ShardingPlan::default() });
    plans
}

fn all_stages(place: &Place, ranks: usize, models: &[(Value, WeightDtype)]) {
    for (keys, dtype) in models {
        same_for_every_plan(place, ranks, keys, [*dtype, WeightDtype::F32]);
    }
}

/// The loss that every plan gives.
fn same_for_every_plan(place: &Place, ranks: usize, keys: &Value, dtypes: [WeightDtype; 2]) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), keys);
    let all: Vec<_> = plans()
        .into_iter()
        .flat_map(|plan| losses(dir.path(), place, dtypes, plan, ranks).into_iter().map(move |loss| (plan, loss)))
        .collect();
    let first = all[0].1;
    for (plan, loss) in all {
        assert!(loss.is_finite() && loss.to_bits() == first.to_bits(), "{keys}, {plan:?}, {dtypes:?}: {loss} {first}");
    }
    assert!(first > 1.0 && first < 10.0, "{keys}: {first:?}");
    first
}

#[test]
fn kernels_give_the_same_bits_for_every_plan() {
    let place = Place::of_this_build();
    // Ranks on GPUs need one each.
    let ranks = if place.is_emulated() { &[1, 2][..] } else { &[1] };
    for ranks in ranks {
        // An emulated step takes seconds: the other models run on the CPU alone.
        all_stages(&place, *ranks, &models()[..2]);
    }
}

#[test]
fn cpu_gives_the_same_bits_for_every_plan() {
    for ranks in [1, 3] {
        all_stages(&Place::cpu(), ranks, &models());
    }
}

/// Also with more layers than staging buffers: five, of which two are copied while the pass runs in f32 and four in bf16.
#[test]
fn kernels_round_gradients_alike_in_every_plan() {
    let place = Place::of_this_build();
    let ranks = if place.is_emulated() { 2 } else { 1 };
    let (keys, dtype) = &models()[0];
    let on = |place: &Place, ranks, gradients| same_for_every_plan(place, ranks, keys, [*dtype, gradients]);
    on(&place, ranks, WeightDtype::Bf16);
    for ranks in [1, 3] {
        let [f32, bf16] = [WeightDtype::F32, WeightDtype::Bf16].map(|gradients| on(&Place::cpu(), ranks, gradients));
        assert!(f32 != bf16 && (f32 - bf16).abs() < 1e-3, "{ranks} ranks: {f32} {bf16}");
    }
}
