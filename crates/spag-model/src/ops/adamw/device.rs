//! AdamW by the kernels of `adamw.cu`.

use candle_core::{Result, Tensor};

use super::{Numbers, Weights};
use crate::kernels::{Arg, Kernels, Launch, Module, module};
use crate::ops::elements::{THREADS, blocks};

const MODULE: Module = module!("adamw");
/// Elements of a thread.
const EACH: usize = 4;

pub(super) fn adamw(
    kernels: &dyn Kernels,
    weights: Weights<'_>,
    gradient: &Tensor,
    (m, v): (&Tensor, &Tensor),
    at: &Numbers,
) -> Result<()> {
    let count = gradient.elem_count();
    let mut args = match weights {
        Weights::F32(parameter) => vec![Arg::Out(parameter), Arg::Null],
        Weights::Master { wide, rounded } => vec![Arg::Out(wide), Arg::Out(rounded)],
        Weights::Stochastic { narrow, .. } => vec![Arg::Out(narrow)],
    };
    args.extend([Arg::In(gradient), Arg::Out(m), Arg::Out(v), Arg::U64(count as u64)]);
    let &Numbers { decay, rate, root, beta1, beta2, rest1, rest2, epsilon, scale, .. } = at;
    args.extend([decay, rate, root, beta1, beta2, rest1, rest2, epsilon, scale].map(Arg::F32));
    let kernel = match weights {
        Weights::Stochastic { seed, first, .. } => {
            args.extend([Arg::U64(super::key(seed, at.step)), Arg::U64(first)]);
            "adamw_stochastic"
        }
        _ => "adamw_f32",
    };
    kernels.launch(&Launch {
        module: MODULE,
        kernel: kernel.into(),
        grid: [blocks(count, EACH)?, 1, 1],
        block: THREADS,
        shared_bytes: 0,
        args: &args,
    })
}
