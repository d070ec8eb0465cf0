//! ZeRO on devices: every stage, with and without offload, gives the same bits.

use std::path::Path;
use std::sync::Arc;

use candle_core::Device;
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup, Single, TcpGroup, Token};
use spag_emulator::Emulator;
use spag_gpu_check::Place;
use spag_model::{LoadOptions, Model, ModelConfig, WeightDtype, WriteOptions, save_model};
use spag_tests::reserve_port;
use spag_train::{Placement, ShardingPlan, TimedRank, TimingConfig, ZeroStage, time_steps_of_rank};

fn save(dir: &Path, tied: bool) {
    let config: ModelConfig = serde_json::from_str(&format!(
        r#"{{"hidden_size": 24, "intermediate_size": 40, "vocab_size": 50, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
            "tie_word_embeddings": {tied}}}"#
    ))
    .unwrap();
    save_model(&Model::init(&config, 3).unwrap(), dir, WriteOptions::new(WeightDtype::F32)).unwrap();
}

/// The loss of the third step, after two updates, on each of `ranks` threads.
fn losses(dir: &Path, place: &Place, dtype: WeightDtype, plan: ShardingPlan, ranks: usize) -> Vec<f64> {
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
        let options = LoadOptions { device: Device::Cpu, dtype };
        let timing = TimingConfig {
            batch: 2,
            seq: 12,
            steps: 3,
            warmup: 0,
            vocab_size: 50,
            seed: 5,
            gradient_checkpointing: false,
            accumulation: 2,
        };
        let rank = TimedRank { dir, options: &options, plan, group };
        // One thread pool per rank, so that a waiting rank does not block the others' work.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let steps = || time_steps_of_rank(&rank, None, &timing);
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
    plans.push(ShardingPlan {
        stage: ZeroStage::Parameters,
        optimizer: Placement::Device,
        parameters: Placement::Host,
    });
    plans
}

fn all_stages(place: &Place, ranks: usize) {
    for (tied, dtype) in [(false, WeightDtype::F32), (true, WeightDtype::Bf16)] {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), tied);
        let mut first: Option<f64> = None;
        for plan in plans() {
            for loss in losses(dir.path(), place, dtype, plan, ranks) {
                let first = *first.get_or_insert(loss);
                assert!(loss.is_finite() && loss.to_bits() == first.to_bits(), "{plan:?}, {dtype}: {loss} {first}");
            }
        }
        assert!(first.is_some_and(|loss| loss > 1.0 && loss < 10.0), "{first:?}");
    }
}

#[test]
fn emulated_devices_give_the_same_bits_for_every_plan() {
    for ranks in [1, 2] {
        all_stages(&Place::emulated(Arc::new(Emulator::default())), ranks);
    }
}

#[test]
fn cpu_gives_the_same_bits_for_every_plan() {
    for ranks in [1, 3] {
        all_stages(&Place::device(Device::Cpu), ranks);
    }
}
