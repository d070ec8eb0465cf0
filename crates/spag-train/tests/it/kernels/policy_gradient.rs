//! A loss per token, with leaves, on devices: as on a CPU.

use std::path::Path;
use std::sync::Arc;

use candle_core::Device;
use serde_json::json;
use spag_dist::Single;
use spag_emulator::Place;
use spag_model::checkpoint::LoadOptions;
use spag_model::dtype::WeightDtype;
use spag_train::loss::{Length, PolicyGradient, Ratio};
use spag_train::{
    Learner, ModelShard, ShardingPlan, Span, StepRecord, TargetModules, TrainConfig, Trajectory, add_reference,
};

use super::zero::save;

/// Two games with utterances of both signs, their end tokens, and what follows them.
fn trajectories() -> Vec<Trajectory> {
    let span = |tokens: std::ops::Range<usize>, advantage| Span {
        leaf: Some(2),
        sampling_log_probs: Some(vec![-3.9; tokens.len() + 1]),
        ..Span::new(tokens, advantage)
    };
    let trajectory = |row: usize| Trajectory {
        row,
        ids: (0..20).map(|at| (7 * at + 3 * row as u32) % 50).collect(),
        spans: vec![span(3..6, 1.0), span(9..9, 0.5), span(12..17, -1.0)],
    };
    (0..2).map(trajectory).collect()
}

/// What differs between the cases.
#[derive(Clone, Copy, Debug)]
struct Case {
    ratio: Ratio,
    dtype: WeightDtype,
    /// Rank of an adapter of all layers.
    lora_r: Option<usize>,
}

/// Three steps on a device.
fn steps(dir: &Path, device: &Device, case: Case) -> Vec<StepRecord> {
    let Case { ratio, dtype, lora_r } = case;
    let options = LoadOptions { device: device.clone(), dtype };
    let config = TrainConfig {
        learning_rate: 1e-2,
        per_device_train_batch_size: 1,
        lora_r,
        lora_target_modules: lora_r.map_or_else(TargetModules::default, |_| TargetModules::of(["all-linear"])),
        bf16: dtype == WeightDtype::Bf16,
        ..TrainConfig::default()
    };
    let shard =
        ModelShard { dir, adapter: None, options: &options, plan: ShardingPlan::default(), group: Arc::new(Single) };
    let loss = PolicyGradient { ratio, length: Length::Constant(8), kl: 0.1, sft: 0.0 };
    let mut learner = Learner::load(shard, &config, 3).unwrap().with_loss(Box::new(loss));
    let mut all = trajectories();
    add_reference(learner.network(), &*learner.weights(), &mut all).unwrap();
    (0..3).map(|_| learner.step(&all).unwrap()).collect()
}

#[test]
fn policy_gradients_match_those_of_a_cpu() {
    let place = Place::of_this_build();
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &json!({"num_key_value_heads": 2}));
    let (clip, masked) = (Ratio::Clip { low: 0.2, high: 0.2 }, Ratio::Masked { cap: 2.0 });
    let (f32s, bf16s) = (WeightDtype::F32, WeightDtype::Bf16);
    let cases = [(clip, f32s, None, 1e-4), (masked, f32s, None, 1e-4), (masked, f32s, Some(4), 1e-4)];
    for (ratio, dtype, lora_r, tolerance) in cases.into_iter().chain([(masked, bf16s, Some(4), 0.1)]) {
        let case = Case { ratio, dtype, lora_r };
        let want = steps(dir.path(), &Device::Cpu, case);
        let got = place.run(|| steps(dir.path(), place.device(), case));
        for (got, want) in got.iter().zip(&want) {
            assert_eq!((got.log_prob_gap.tokens, got.skipped), (2 * (4 + 1 + 6), false));
            for (got, want) in [
                (got.loss, want.loss),
                (got.grad_norm, want.grad_norm),
                (got.log_prob_gap.max, want.log_prob_gap.max),
                (got.metrics.get("importance_ratio_mean").unwrap(), want.metrics.get("importance_ratio_mean").unwrap()),
                (got.metrics.get("clipped_fraction").unwrap(), want.metrics.get("clipped_fraction").unwrap()),
            ] {
                assert!((got - want).abs() <= tolerance * want.abs().max(1e-2), "{case:?}: {got} against {want}");
            }
        }
    }
}
