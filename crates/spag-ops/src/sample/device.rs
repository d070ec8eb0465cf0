//! Sampling and scoring with the kernels of `sample.cu`.

use candle_core::{DType, Result, Tensor, bail};

use super::{
    Adjustment, Distribution, Drawn, LogitEdit, RowParams, SampleError, SampleParams, SampledToken, Sampling,
    ScoreParams, TokenLogProb,
};
use crate::kernels::{Arg, Kernels, Launch, Module, module, suffix};

const MODULE: Module = module!("sample");
const THREADS: u32 = 512;
/// Shared memory of a block; the kernel asserts that it suffices.
const SHARED_BYTES: usize = 4608;
/// Words of a row's parameters.
const SETTING: usize = 10;
/// Words of a row's adjustment.
const ADJUSTMENT: usize = 8;
/// Words of a row's result.
const RESULT: usize = 4;

/// Samples from some rows of logits, with one upload (the parameters) and one download (tokens and log-probabilities).
pub(super) fn sample(kernels: &dyn Kernels, logits: &Tensor, rows: &[RowParams<'_>]) -> Result<Vec<Drawn>> {
    let size = logits.dim(1)?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let settings = settings(rows.iter().map(|(row, params)| (&params.distribution, params.uniform, *row as u32)));
    let out = kernels.empty(&[rows.len(), RESULT], DType::U32)?;
    launch(kernels, format!("sample_{}", suffix(logits.dtype())?), Arg::In(logits), settings, &out, &[size])?;
    out.to_vec2::<u32>()?
        .into_iter()
        .map(|row| match row[..] {
            [token, model, sampling, 0] => Ok(Ok(SampledToken {
                token,
                model_log_prob: f32::from_bits(model),
                sampling_log_prob: f32::from_bits(sampling),
            })),
            [_, _, _, 1] => Ok(Err(SampleError::NotFinite)),
            [_, _, _, 2] => Ok(Err(SampleError::NoneAllowed)),
            _ => bail!("sampling: the device returned {row:?}"),
        })
        .collect()
}

/// Scores tokens, with one upload (rows and tokens) and one download (log-probabilities).
pub(super) fn score(
    kernels: &dyn Kernels,
    logits: &Tensor,
    params: &[ScoreParams],
) -> Result<Vec<std::result::Result<TokenLogProb, SampleError>>> {
    let size = logits.dim(1)?;
    let most = params.iter().map(|params| params.top).max().unwrap_or(0).min(size);
    let rows: Vec<u32> = params.iter().flat_map(|params| [params.row as u32, params.token]).collect();
    let out = kernels.empty(&[params.len(), 2 + 2 * most], DType::U32)?;
    launch(kernels, format!("score_{}", suffix(logits.dtype())?), Arg::In(logits), rows, &out, &[size, most])?;
    let results = out.to_vec2::<u32>()?.into_iter().zip(params);
    results
        .map(|(row, ScoreParams { token, top, .. })| match row[..] {
            [0, log_prob, ref likely @ ..] => {
                let likely = likely.chunks_exact(2).take(*top);
                let top = likely.map(|pair| (pair[0], f32::from_bits(pair[1]))).collect();
                Ok(Ok(TokenLogProb { token: *token, log_prob: f32::from_bits(log_prob), top }))
            }
            [1, ..] => Ok(Err(SampleError::NotFinite)),
            _ => bail!("scoring: the device returned {row:?}"),
        })
        .collect()
}

/// Uploads distributions and targets, without waiting.
pub(super) fn restrict(
    kernels: &dyn Kernels,
    logits: &Tensor,
    distributions: &[Distribution],
    targets: &[u32],
) -> Result<Tensor> {
    let (rows, size) = logits.dims2()?;
    let log_sums = kernels.empty(&[rows], DType::F32)?;
    // The kernel leaves greedy rows unchanged.
    let unchanged = Distribution { sampling: Sampling::Greedy, banned: [].into() };
    let of = |distribution| if Distribution::is_of_model(distribution) { &unchanged } else { distribution };
    let settings =
        settings(distributions.iter().zip(targets).map(|(distribution, target)| (of(distribution), 0.0, *target)));
    launch(kernels, "restrict_logits".into(), Arg::Out(logits), settings, &log_sums, &[size])?;
    Ok(log_sums)
}

/// Copies some rows of logits as f32 with their adjustments applied, with one upload.
pub(super) fn adjust(kernels: &dyn Kernels, logits: &Tensor, rows: &[RowParams<'_>]) -> Result<Tensor> {
    let size = logits.dim(1)?;
    let (mut settings, mut more) = (Vec::with_capacity(rows.len() * ADJUSTMENT), Vec::new());
    for (row, SampleParams { distribution, adjustment, .. }) in rows {
        let none = Adjustment::default();
        let adjustment = adjustment.as_deref().unwrap_or(&none);
        let at = |more: &Vec<u32>| (rows.len() * ADJUSTMENT + more.len()) as u32;
        let allowed_at = at(&more);
        let words = adjustment.allowed.as_ref().map_or(&[][..], |allowed| allowed.words());
        more.extend(words);
        let edits_at = at(&more);
        for LogitEdit { token, bias, repetition, penalty } in &adjustment.edits {
            more.extend([*token, bias.to_bits(), repetition.to_bits(), penalty.to_bits()]);
        }
        let banned_at = at(&more);
        more.extend(distribution.banned.iter());
        // The marker of a row without a set of allowed tokens.
        let words = adjustment.allowed.as_ref().map_or(u32::MAX, |_| words.len() as u32);
        let reach = adjustment.reach(distribution).to_bits();
        settings.extend([*row as u32, allowed_at, words, edits_at, adjustment.edits.len() as u32]);
        settings.extend([banned_at, distribution.banned.len() as u32, reach]);
    }
    settings.extend(more);
    let out = kernels.empty(&[rows.len(), size], DType::F32)?;
    launch(kernels, format!("adjust_{}", suffix(logits.dtype())?), Arg::In(logits), settings, &out, &[size])?;
    Ok(out)
}

/// Uploads the words and launches a kernel with one block per row of `out`.
fn launch(
    kernels: &dyn Kernels,
    kernel: String,
    logits: Arg<'_>,
    words: Vec<u32>,
    out: &Tensor,
    sizes: &[usize],
) -> Result<()> {
    let length = words.len();
    let words = Tensor::from_vec(words, length, out.device())?;
    let mut args = vec![logits, Arg::In(&words), Arg::Out(out)];
    args.extend(sizes.iter().map(|size| Arg::U32(*size as u32)));
    let grid = [out.dim(0)? as u32, 1, 1];
    let of_module = Launch::of(MODULE);
    kernels.launch(&Launch { kernel, grid, block: THREADS, shared_bytes: SHARED_BYTES, args: &args, ..of_module })
}

/// Distributions with their uniform numbers and a row or target each, in the kernels' layout, followed by all banned tokens.
fn settings<'a>(rows: impl Iterator<Item = (&'a Distribution, f64, u32)>) -> Vec<u32> {
    let halves = |x: f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32];
    let rows: Vec<_> = rows.collect();
    let mut all = Vec::with_capacity(rows.len() * SETTING);
    let mut banned_at = rows.len() * SETTING;
    for (distribution, uniform, which) in &rows {
        let (kind, k, p) = match distribution.sampling {
            Sampling::Greedy => (0, None, None),
            Sampling::Random { top_k: None, top_p: None, .. } => (1, None, None),
            Sampling::Random { top_k, top_p, .. } => (2, top_k, top_p),
        };
        let k = k.and_then(|k| u32::try_from(k).ok()).unwrap_or(u32::MAX);
        let banned = distribution.banned.len();
        all.extend([kind, distribution.inverse_temperature().to_bits(), k, banned_at as u32, banned as u32, *which]);
        // Above 1: unrestricted.
        all.extend(halves(p.unwrap_or(2.0)));
        all.extend(halves(*uniform));
        banned_at += banned;
    }
    all.extend(rows.iter().flat_map(|(distribution, ..)| distribution.banned.iter()));
    all
}
