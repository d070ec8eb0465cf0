//! The learning rates under `configs/default_offload_opt_param.json`, against those of the package `deepspeed`.
//!
//! `RATES_OF_5` and `RATES_OF_100` are the rates with which each optimizer step is taken, computed with deepspeed 0.19.8
//! from PyPI (and torch 2.2.2) as its engine does: `optimizer.step()`, then `scheduler.step()`, with
//!
//! ```python
//! optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=5e-6)
//! WarmupDecayLR(optimizer, total_num_steps=N, warmup_min_lr=0, warmup_max_lr=5e-6, warmup_num_steps=math.ceil(N * 0.03))
//! ```
//!
//! deepspeed 0.13.1, 0.14.4, 0.15.1 and 0.15.2 give the same, except for a first step with 5e-6.

use std::path::Path;

use super::super::*;
use crate::config::TrainConfig;
use crate::config::{FirstStepRate, SchedulerType};
use crate::schedule::Schedule;

const RATES_OF_5: [f64; 5] = [0.0, 0.0, 5e-06, 5e-06, 3.3333333333333333e-06];

#[rustfmt::skip]
const RATES_OF_100: [f64; 100] = [
    0.0, 0.0, 3.154648767857287e-06, 5e-06, 5e-06,
    4.948453608247423e-06, 4.8969072164948455e-06, 4.845360824742268e-06, 4.7938144329896915e-06, 4.742268041237113e-06,
    4.690721649484537e-06, 4.639175257731959e-06, 4.587628865979382e-06, 4.536082474226804e-06, 4.484536082474228e-06,
    4.4329896907216494e-06, 4.381443298969073e-06, 4.329896907216495e-06, 4.278350515463918e-06, 4.2268041237113405e-06,
    4.175257731958763e-06, 4.123711340206186e-06, 4.072164948453608e-06, 4.020618556701032e-06, 3.969072164948453e-06,
    3.917525773195877e-06, 3.865979381443299e-06, 3.814432989690722e-06, 3.7628865979381445e-06, 3.7113402061855674e-06,
    3.6597938144329896e-06, 3.6082474226804126e-06, 3.5567010309278356e-06, 3.5051546391752577e-06, 3.4536082474226807e-06,
    3.4020618556701037e-06, 3.350515463917526e-06, 3.298969072164949e-06, 3.2474226804123714e-06, 3.195876288659794e-06,
    3.1443298969072165e-06, 3.0927835051546395e-06, 3.041237113402062e-06, 2.9896907216494846e-06, 2.9381443298969076e-06,
    2.8865979381443297e-06, 2.8350515463917527e-06, 2.7835051546391757e-06, 2.731958762886598e-06, 2.680412371134021e-06,
    2.628865979381444e-06, 2.577319587628866e-06, 2.525773195876289e-06, 2.4742268041237115e-06, 2.422680412371134e-06,
    2.3711340206185566e-06, 2.3195876288659796e-06, 2.268041237113402e-06, 2.2164948453608247e-06, 2.1649484536082477e-06,
    2.1134020618556703e-06, 2.061855670103093e-06, 2.010309278350516e-06, 1.9587628865979384e-06, 1.907216494845361e-06,
    1.8556701030927837e-06, 1.8041237113402063e-06, 1.7525773195876288e-06, 1.7010309278350518e-06, 1.6494845360824744e-06,
    1.597938144329897e-06, 1.5463917525773197e-06, 1.4948453608247423e-06, 1.4432989690721649e-06, 1.3917525773195878e-06,
    1.3402061855670104e-06, 1.288659793814433e-06, 1.2371134020618557e-06, 1.1855670103092783e-06, 1.134020618556701e-06,
    1.0824742268041239e-06, 1.0309278350515464e-06, 9.793814432989692e-07, 9.278350515463919e-07, 8.762886597938144e-07,
    8.247422680412372e-07, 7.731958762886599e-07, 7.216494845360824e-07, 6.701030927835052e-07, 6.185567010309279e-07,
    5.670103092783505e-07, 5.154639175257732e-07, 4.6391752577319593e-07, 4.123711340206186e-07, 3.608247422680412e-07,
    3.0927835051546394e-07, 2.577319587628866e-07, 2.061855670103093e-07, 1.5463917525773197e-07, 1.0309278350515465e-07,
];

/// The schedule of the run of `steps` steps that the reference's commands describe.
fn schedule(config: &TrainConfig, steps: usize) -> Schedule {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/default_offload_opt_param.json");
    let run = RunFacts { config, world_size: 8, total_steps: steps };
    let scheduler = DeepSpeed::load(&path, &run).unwrap().scheduler.expect("the file has a scheduler");
    Schedule::new(config, steps).of_deepspeed(scheduler)
}

fn config(first_step: FirstStepRate) -> TrainConfig {
    TrainConfig {
        learning_rate: 5e-6,
        lr_scheduler_type: SchedulerType::Cosine,
        warmup_ratio: 0.03,
        deepspeed_first_step: first_step,
        ..TrainConfig::default()
    }
}

fn assert_rates(config: &TrainConfig, expected: &[f64]) {
    let schedule = schedule(config, expected.len());
    for (step, expected) in expected.iter().enumerate() {
        let rate = schedule.rate(step);
        assert!((rate - expected).abs() <= 1e-15 * expected, "step {step}: {rate} instead of {expected}");
    }
}

#[test]
fn rates_of_5_and_100_steps_equal_those_of_deepspeed() {
    assert_rates(&config(FirstStepRate::Min), &RATES_OF_5);
    assert_rates(&config(FirstStepRate::Min), &RATES_OF_100);
}

#[test]
fn first_step_of_earlier_versions_has_the_peak_rate() {
    let config = config(FirstStepRate::Max);
    for rates in [&RATES_OF_5[..], &RATES_OF_100[..]] {
        assert_rates(&config, &[&[5e-6], &rates[1..]].concat());
    }
}

#[test]
fn warm_up_does_not_depend_on_the_replaced_schedule() {
    let constant = TrainConfig { lr_scheduler_type: SchedulerType::Constant, ..config(FirstStepRate::Min) };
    assert_rates(&constant, &RATES_OF_100);
    let steps = TrainConfig { warmup_steps: Some(3), warmup_ratio: 0.5, ..constant };
    assert_rates(&steps, &RATES_OF_100);
}
