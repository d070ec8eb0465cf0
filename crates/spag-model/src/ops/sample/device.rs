//! Tokens by the kernel of `sample.cu`.

use candle_core::{DType, Result, Tensor, bail};

use super::{Ask, Choice, Draw, Refusal};
use crate::kernels::{Arg, Kernels, Launch, Module, module, suffix};

const MODULE: Module = module!("sample");
const THREADS: u32 = 512;
/// The kernel asserts that this is enough.
const SHARED_BYTES: usize = 4608;
/// Numbers that say how a row's token is chosen.
const SETTING: usize = 10;
/// Numbers that come back of a row.
const RESULT: usize = 4;

/// One copy there, one back: what the rows are asked for, and the tokens with their two log-probabilities.
pub(super) fn choose(
    kernels: &dyn Kernels,
    logits: &Tensor,
    asks: &[Ask],
) -> Result<Vec<std::result::Result<Choice, Refusal>>> {
    let (rows, size) = logits.dims2()?;
    if rows == 0 {
        return Ok(Vec::new());
    }
    let settings = settings(asks);
    let length = settings.len();
    let settings = Tensor::from_vec(settings, length, logits.device())?;
    let out = kernels.empty(&[rows, RESULT], DType::U32)?;
    kernels.launch(&Launch {
        module: MODULE,
        kernel: format!("sample_{}", suffix(logits.dtype())?),
        grid: [rows as u32, 1, 1],
        block: THREADS,
        shared_bytes: SHARED_BYTES,
        args: &[Arg::In(logits), Arg::In(&settings), Arg::Out(&out), Arg::U32(size as u32)],
    })?;
    out.to_vec2::<u32>()?
        .into_iter()
        .map(|row| match row[..] {
            [token, model, sampling, 0] => Ok(Ok(Choice {
                token,
                model_log_prob: f32::from_bits(model),
                sampling_log_prob: f32::from_bits(sampling),
            })),
            [_, _, _, 1] => Ok(Err(Refusal::Unsound)),
            [_, _, _, 2] => Ok(Err(Refusal::NothingAllowed)),
            _ => bail!("sampling: the device answers {row:?}"),
        })
        .collect()
}

/// The rows' settings, in the kernel's order, and after them the banned tokens of all.
fn settings(asks: &[Ask]) -> Vec<u32> {
    let halves = |x: f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32];
    let mut all = Vec::with_capacity(asks.len() * SETTING);
    let mut banned_at = asks.len() * SETTING;
    for ask in asks {
        let (kind, inverse, k, p, uniform) = match ask.draw {
            Draw::Greedy => (0, 1.0, None, None, 0.0),
            Draw::Random { temperature, top_k: None, top_p: None, uniform } => {
                (1, (1.0 / temperature) as f32, None, None, uniform)
            }
            Draw::Random { temperature, top_k, top_p, uniform } => {
                (2, (1.0 / temperature) as f32, top_k, top_p, uniform)
            }
        };
        let k = k.and_then(|k| u32::try_from(k).ok()).unwrap_or(u32::MAX);
        all.extend([kind, inverse.to_bits(), k, banned_at as u32, ask.banned.len() as u32, 0]);
        // A share of more than all: not restricted.
        all.extend(halves(p.unwrap_or(2.0)));
        all.extend(halves(uniform));
        banned_at += ask.banned.len();
    }
    all.extend(asks.iter().flat_map(|ask| &ask.banned));
    all
}
