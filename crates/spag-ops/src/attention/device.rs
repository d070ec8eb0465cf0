//! Attention with CUDA kernels: `forward.cu`, `backward.cu` and those in `hopper/`.

use std::borrow::Cow;

use candle_core::{DType, Result, Tensor, bail};

use super::sequences::Work;
use super::{Heads, Mask, MaskOnDevice, Sequences};
use crate::kernels::{Arg, Kernels, Launch, Module, module, suffix};

const FORWARD: Module = module!("attention_forward");
const BACKWARD: Module = module!("attention_backward");
const HOPPER_FORWARD: Module = module!("attention_hopper_forward");
const HOPPER_BACKWARD: Module = module!("attention_hopper_backward");

/// Rows of a tile of a work list.
const TILE: usize = 128;
/// Maximum head size.
const MAX_DIM: usize = 256;

/// Kernel variant for a number format and head size.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    /// Tiles on tensor cores.
    Tiles,
    /// Warpgroup tiles, with one persistent block on each of these multiprocessors.
    Warpgroups(u32),
    /// One row per warp.
    Rows,
}

/// Constants of the row kernels: rows per block (one per warp), staged rows, and threads.
mod by_rows {
    pub(super) const ROWS: usize = 8;
    pub(super) const STAGED: usize = 32;
    pub(super) const THREADS: u32 = 256;
}

/// Constants of the warpgroup kernels (`hopper/pipeline.cuh`): threads, rows and number of key/value buffers in the forward
/// pass, those of the backward passes, and bytes of barriers.
mod by_warpgroups {
    pub(super) const THREADS: u32 = 384;
    pub(super) const KEYS: usize = 64;
    pub(super) const STAGES: usize = 4;
    pub(super) const STEP: usize = 64;
    pub(super) const STEPS: usize = 3;
    pub(super) const BARRIERS: usize = 256;
}

impl Path {
    fn of(kernels: &dyn Kernels, dtype: DType, dim: usize) -> Result<Self> {
        match (dtype, dim) {
            (DType::BF16, 64 | 128) => Ok(kernels.warpgroup_processors().map_or(Self::Tiles, Self::Warpgroups)),
            (_, 1..=MAX_DIM) => Ok(Self::Rows),
            _ => bail!("attention: kernels take head sizes from 1 to {MAX_DIM}, not {dim}"),
        }
    }

    /// The kernel's name and its mask arguments. Tile kernels have a version for purely causal attention, which saves
    /// registers and the arithmetic of distances.
    fn kernel<'a>(
        self,
        what: &str,
        dtype: DType,
        dim: usize,
        mask: &'a MaskOnDevice,
    ) -> Result<(String, Vec<Arg<'a>>)> {
        let suffix = suffix(dtype)?;
        Ok(match self {
            Self::Tiles | Self::Warpgroups(_) => {
                let (version, args) = mask.version();
                let of = if self == Self::Tiles { "" } else { "hopper_" };
                (format!("attention_{of}{what}{version}_{dim}_{suffix}"), args)
            }
            Self::Rows => (format!("attention_{what}_{suffix}"), mask.args().to_vec()),
        })
    }

    /// The number of work pieces for `items` tiles and `heads`.
    fn pieces(self, items: usize, heads: usize) -> Result<u32> {
        let slices = match self {
            Self::Tiles | Self::Warpgroups(_) => 1,
            Self::Rows => TILE / by_rows::ROWS,
        };
        match i32::try_from(items * heads * slices) {
            Ok(pieces) => Ok(pieces.cast_unsigned()),
            Err(_) => bail!("attention: {items} tiles of {TILE} rows and {heads} heads are too many"),
        }
    }

    /// The argument for the number of `pieces`, for persistent blocks.
    fn count(self, pieces: u32) -> Option<Arg<'static>> {
        matches!(self, Self::Warpgroups(_)).then_some(Arg::U32(pieces))
    }

    /// Grid for `pieces` of work.
    fn grid(self, pieces: u32) -> [u32; 3] {
        match self {
            Self::Tiles | Self::Rows => [pieces, 1, 1],
            Self::Warpgroups(processors) => [pieces.min(processors), 1, 1],
        }
    }
}

/// Shared memory of the row kernels: two staged operands, and `own` rows and `weights` per warp.
fn row_bytes(dim: usize, own: usize, weights: usize) -> usize {
    (2 * by_rows::STAGED * (dim | 1) + by_rows::ROWS * (own * dim + weights * by_rows::STAGED)) * size_of::<f32>()
}

/// Shared memory for `rows` rows of one head in bf16.
fn tile_bytes(dim: usize, rows: usize) -> usize {
    rows * dim * DType::BF16.size_in_bytes()
}

/// Shared memory of the tile kernel for keys with steps of `queries`: the block's 128 rows of keys and values, two
/// buffers for both operands of a step, and the initial sums of their products.
fn keys_bytes(dim: usize, queries: usize) -> usize {
    tile_bytes(dim, 2 * TILE + 2 * 2 * queries) + 2 * 2 * queries * size_of::<f32>()
}

/// Shared memory of the warpgroup backward kernels: the block's rows of two operands, and steps of equal size for two
/// others with two numbers per row.
fn step_bytes(dim: usize) -> usize {
    use by_warpgroups::{BARRIERS, STEP, STEPS};
    tile_bytes(dim, 2 * TILE + STEPS * 2 * STEP) + STEPS * 2 * STEP * size_of::<f32>() + BARRIERS
}

/// The tile kernel for keys on a device with `max_shared_bytes` per block, and its shared memory.
fn keys_kernel(dim: usize, max_shared_bytes: usize) -> (&'static str, usize) {
    match keys_bytes(dim, 64) {
        bytes if dim == 128 && bytes > max_shared_bytes => ("backward_keys_32", keys_bytes(dim, 32)),
        bytes => ("backward_keys", bytes),
    }
}

fn same_format(tensors: &[&Tensor]) -> Result<DType> {
    let dtype = tensors[0].dtype();
    if tensors.iter().any(|t| t.dtype() != dtype) {
        bail!("attention: the tensors have different number formats");
    }
    Ok(dtype)
}

/// Keys or values in the row order of `work`; copied if there are trees.
fn of_keys<'a>(kernels: &dyn Kernels, x: &'a Tensor, work: &Work) -> Result<Cow<'a, Tensor>> {
    match &work.copied {
        Some(rows) => Ok(Cow::Owned(rows.gather(kernels, x)?)),
        None => Ok(Cow::Borrowed(x)),
    }
}

/// Reduces the gradients of copied keys or values to their `rows` original rows.
fn of_rows(kernels: &dyn Kernels, copies: Tensor, rows: usize, work: &Work) -> Result<Tensor> {
    let Some(copied) = &work.copied else { return Ok(copies) };
    let sums = Tensor::zeros((rows, copies.dim(1)?), copies.dtype(), copies.device())?;
    copied.add(kernels, &copies, &sums)?;
    Ok(sums)
}

/// Returns the output and the log-sum-exps, f32 [N, H].
pub(super) fn forward(
    kernels: &dyn Kernels,
    (q, k, v): (&Tensor, &Tensor, &Tensor),
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
) -> Result<(Tensor, Tensor)> {
    let mask = mask.on(q.device())?;
    let dtype = same_format(&[q, k, v])?;
    let (path, work) = (Path::of(kernels, dtype, heads.dim)?, sequences.work()?);
    let (k, v) = (&*of_keys(kernels, k, work)?, &*of_keys(kernels, v, work)?);
    let out = kernels.empty(q.dims(), dtype)?;
    let lse = kernels.empty(&[q.dim(0)?, heads.query], DType::F32)?;
    let pieces = path.pieces(work.queries.dim(0)?, heads.query)?;
    let mut args = vec![Arg::In(q), Arg::In(k), Arg::In(v), Arg::In(&work.queries)];
    args.extend(path.count(pieces));
    args.extend([Arg::Out(&out), Arg::Out(&lse), Arg::U32(heads.query as u32), Arg::U32(heads.kv as u32)]);
    let scale = mask.scale(heads.dim) * std::f32::consts::LOG2_E;
    let (block, shared_bytes) = match path {
        Path::Tiles => {
            args.push(Arg::F32(scale));
            (128, tile_bytes(heads.dim, 128 + 2 * 64))
        }
        Path::Warpgroups(_) => {
            use by_warpgroups::{BARRIERS, KEYS, STAGES, THREADS};
            args.push(Arg::F32(scale));
            (THREADS, tile_bytes(heads.dim, TILE + STAGES * 2 * KEYS) + BARRIERS)
        }
        Path::Rows => {
            args.extend([Arg::U32(heads.dim as u32), Arg::F32(mask.scale(heads.dim))]);
            (by_rows::THREADS, row_bytes(heads.dim, 1, 1))
        }
    };
    let (kernel, mask) = path.kernel("forward", dtype, heads.dim, &mask)?;
    args.extend(mask);
    kernels.launch(&Launch {
        kernel,
        grid: path.grid(pieces),
        block,
        shared_bytes,
        args: &args,
        ..Launch::of(if let Path::Warpgroups(_) = path { HOPPER_FORWARD } else { FORWARD })
    })?;
    Ok((out, lse))
}

/// Inputs and outputs of the forward pass, and the gradient of the output.
pub(super) struct Saved<'a> {
    pub(super) q: &'a Tensor,
    pub(super) k: &'a Tensor,
    pub(super) v: &'a Tensor,
    pub(super) out: &'a Tensor,
    pub(super) lse: &'a Tensor,
    pub(super) dout: &'a Tensor,
}

/// One of the two kernels of the backward pass.
struct Pass<'a> {
    /// Name of the kernel.
    what: &'static str,
    /// Tiles of the blocks' rows, [items, 5].
    list: &'a Tensor,
    /// The gradients it computes.
    to: &'a [&'a Tensor],
    /// Heads of the blocks' rows.
    heads: usize,
    /// Threads per block of the tile kernel.
    block: u32,
    /// Shared memory of the tile kernels.
    tile_bytes: usize,
    /// Weights per pair of rows of the row kernel.
    weights: usize,
}

/// Returns dq, dk and dv.
pub(super) fn backward(
    kernels: &dyn Kernels,
    saved: &Saved<'_>,
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
) -> Result<(Tensor, Tensor, Tensor)> {
    let Saved { q, k, v, out, lse, dout } = *saved;
    let mask = mask.on(q.device())?;
    let dtype = same_format(&[q, k, v, out, dout])?;
    let (path, work) = (Path::of(kernels, dtype, heads.dim)?, sequences.work()?);
    let rows = k.dim(0)?;
    let (k, v) = (&*of_keys(kernels, k, work)?, &*of_keys(kernels, v, work)?);
    let delta = delta(kernels, out, dout, heads)?;
    let gradients = |x: &Tensor| kernels.empty(x.dims(), dtype);
    let (dq, dk, dv) = (gradients(q)?, gradients(k)?, gradients(v)?);
    let inputs = [Arg::In(q), Arg::In(k), Arg::In(v), Arg::In(dout), Arg::In(lse), Arg::In(&delta)];
    let (keys, keys_bytes) = match path {
        Path::Tiles => keys_kernel(heads.dim, kernels.max_shared_bytes()),
        Path::Warpgroups(_) => ("backward_keys", step_bytes(heads.dim)),
        Path::Rows => ("backward_keys", 0),
    };
    let queries_bytes = match path {
        // The block's rows of both operands with the initial sums of their products, and 32 keys and values.
        Path::Tiles => tile_bytes(heads.dim, 2 * TILE + 2 * 32) + 2 * TILE * size_of::<f32>(),
        Path::Warpgroups(_) => step_bytes(heads.dim),
        Path::Rows => 0,
    };
    let passes = [
        Pass {
            what: keys,
            list: &work.keys,
            to: &[&dk, &dv],
            heads: heads.kv,
            block: 256,
            tile_bytes: keys_bytes,
            weights: 2,
        },
        Pass {
            what: "backward_queries",
            list: &work.queries,
            to: &[&dq],
            heads: heads.query,
            block: 128,
            tile_bytes: queries_bytes,
            weights: 1,
        },
    ];
    for pass in passes {
        let pieces = path.pieces(pass.list.dim(0)?, pass.heads)?;
        let mut args = inputs.to_vec();
        args.push(Arg::In(pass.list));
        args.extend(path.count(pieces));
        args.extend(pass.to.iter().map(|tensor| Arg::Out(tensor)));
        args.extend([Arg::U32(heads.query as u32), Arg::U32(heads.kv as u32)]);
        let (block, shared_bytes) = match path {
            Path::Tiles => (pass.block, pass.tile_bytes),
            Path::Warpgroups(_) => (by_warpgroups::THREADS, pass.tile_bytes),
            Path::Rows => {
                args.push(Arg::U32(heads.dim as u32));
                (by_rows::THREADS, row_bytes(heads.dim, 2, pass.weights))
            }
        };
        args.push(Arg::F32(mask.scale(heads.dim)));
        let (kernel, mask) = path.kernel(pass.what, dtype, heads.dim, &mask)?;
        args.extend(mask);
        kernels.launch(&Launch {
            kernel,
            grid: path.grid(pieces),
            block,
            shared_bytes,
            args: &args,
            ..Launch::of(if let Path::Warpgroups(_) = path { HOPPER_BACKWARD } else { BACKWARD })
        })?;
    }
    Ok((dq, of_rows(kernels, dk, rows, work)?, of_rows(kernels, dv, rows, work)?))
}

/// rowsum(out∘dout) of each row and head, f32 [N, H].
fn delta(kernels: &dyn Kernels, out: &Tensor, dout: &Tensor, heads: Heads) -> Result<Tensor> {
    const THREADS: usize = 256;
    let n = out.dim(0)?;
    let rows = n * heads.query;
    let delta = kernels.empty(&[n, heads.query], DType::F32)?;
    // One lane per 16 bytes of a row.
    let lanes = (heads.dim * out.dtype().size_in_bytes()).div_ceil(16).next_power_of_two().min(32);
    kernels.launch(&Launch {
        kernel: format!("attention_backward_delta_{}", suffix(out.dtype())?),
        grid: [u32::try_from((rows * lanes).div_ceil(THREADS)).map_err(candle_core::Error::wrap)?, 1, 1],
        block: THREADS as u32,
        args: &[
            Arg::In(out),
            Arg::In(dout),
            Arg::Out(&delta),
            Arg::U32(u32::try_from(rows).map_err(candle_core::Error::wrap)?),
            Arg::U32(heads.dim as u32),
            Arg::U32(lanes as u32),
        ],
        ..Launch::of(BACKWARD)
    })?;
    Ok(delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shared memory per block by compute capability (CUDA C++ Programming Guide, technical specifications).
    #[test]
    fn every_supported_device_has_a_kernel_for_keys() {
        for (capability, kib, of_128) in [
            ("8.0", 163, "backward_keys"),
            ("8.6", 99, "backward_keys_32"),
            ("8.9", 99, "backward_keys_32"),
            ("9.0", 227, "backward_keys"),
            ("10.0", 227, "backward_keys"),
            ("12.0", 99, "backward_keys_32"),
        ] {
            for (dim, name) in [(64, "backward_keys"), (128, of_128)] {
                let (kernel, bytes) = keys_kernel(dim, kib << 10);
                assert_eq!(kernel, name, "{capability}");
                assert!(bytes <= kib << 10, "{capability}: {bytes}");
            }
        }
    }
}
