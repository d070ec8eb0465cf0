//! Paged attention with CUDA kernels.

use candle_core::{Result, Tensor};

use super::tables::{KernelVariant, Tables};
use super::{PageShape, Plan};
use crate::attention::{Mask, MaskOnDevice};
use crate::kernels::{Arg, Kernels, Launch, Module, module, suffix, vector_len};
use crate::rope::{Positions, RopeTable};

const PAGES: Module = module!("paged_attention_pages");
const ROWS: Module = module!("paged_attention_rows");
const DECODE: Module = module!("paged_attention_decode");
const PREFILL: Module = module!("paged_attention_prefill");
/// Threads per block of the tensor-core kernels: four warps.
const THREADS: u32 = 128;
/// Threads per block of the copy kernels.
const COPY_THREADS: u32 = 256;
/// Maximum warps per block of the row kernel, one per head.
const ROW_WARPS: usize = 8;
/// Bytes copied per thread.
const VECTOR_BYTES: usize = 16;

/// Blocks for `count` elements, 16 bytes per thread if heads are whole vectors.
fn copy_blocks(tensor: &Tensor, count: usize, dim: usize) -> u32 {
    let vector = VECTOR_BYTES / tensor.dtype().size_in_bytes();
    let size = if dim.is_multiple_of(vector) { vector } else { 1 };
    ((count / size) as u32).div_ceil(COPY_THREADS)
}

fn sizes(shape: PageShape) -> [Arg<'static>; 4] {
    [shape.heads.query, shape.heads.kv, shape.tokens, shape.heads.dim].map(|size| Arg::U32(size as u32))
}

/// Only the tables and the grid change between passes.
pub(super) fn append(
    kernels: &dyn Kernels,
    qkv: &Tensor,
    (keys, values): (&Tensor, &Tensor),
    tables: &Tables,
    plan: &Plan<'_>,
) -> Result<()> {
    let [heads, kv_heads, tokens, dim] = sizes(plan.shape);
    kernels.launch(&Launch {
        kernel: format!("paged_attention_append_{}", suffix(qkv.dtype())?),
        grid: [plan.rows as u32, copy_blocks(keys, 2 * plan.shape.kv_size(), plan.shape.heads.dim), 1],
        block: COPY_THREADS,
        args: &[Arg::In(qkv), Arg::Out(keys), Arg::Out(values), Arg::In(&tables.tensor), heads, kv_heads, tokens, dim],
        ..Launch::of(PAGES)
    })
}

/// [`append`] with RoPE applied to queries and keys.
pub(super) fn append_rotated(
    kernels: &dyn Kernels,
    qkv: &Tensor,
    (keys, values): (&Tensor, &Tensor),
    (positions, rope): (&Positions, &RopeTable),
    tables: &Tables,
    plan: &Plan<'_>,
) -> Result<()> {
    let (positions, (cos, sin)) = (positions.on(qkv.device())?, rope.on(qkv.device())?);
    let [heads, kv_heads, tokens, dim] = sizes(plan.shape);
    let (half, vector) = (rope.half(), vector_len(qkv.dtype()));
    let (each, how) = if rope.has_whole(vector) { (vector, "vectors") } else { (1, "single") };
    let threads = (plan.shape.joined() / 2 / each) as u32;
    let block = threads.next_multiple_of(32).clamp(32, COPY_THREADS);
    kernels.launch(&Launch {
        kernel: format!("paged_attention_append_rotated_{how}_{}", suffix(qkv.dtype())?),
        grid: [plan.rows as u32, threads.div_ceil(block), 1],
        block,
        args: &[
            Arg::Out(qkv),
            Arg::Out(keys),
            Arg::Out(values),
            Arg::In(&tables.tensor),
            Arg::In(&positions),
            Arg::In(&cos),
            Arg::In(&sin),
            heads,
            kv_heads,
            tokens,
            Arg::U32(half as u32),
            dim,
        ],
        ..Launch::of(PAGES)
    })
}

pub(super) fn copy(
    kernels: &dyn Kernels,
    (keys, values): (&Tensor, &Tensor),
    (from, to): (usize, usize),
    count: usize,
    shape: PageShape,
) -> Result<()> {
    let [_, kv_heads, tokens, dim] = sizes(shape);
    kernels.launch(&Launch {
        kernel: format!("paged_attention_copy_{}", suffix(keys.dtype())?),
        grid: [copy_blocks(keys, count * shape.heads.dim, shape.heads.dim), shape.heads.kv as u32, 2],
        block: COPY_THREADS,
        args: &[
            Arg::Out(keys),
            Arg::Out(values),
            Arg::U32(from as u32),
            Arg::U32(to as u32),
            Arg::U32(count as u32),
            kv_heads,
            tokens,
            dim,
        ],
        ..Launch::of(PAGES)
    })
}

/// Model sizes, split count and scale are passed by value; everything else is in the tables.
pub(super) fn forward(
    kernels: &dyn Kernels,
    qkv: &Tensor,
    (keys, values): (&Tensor, &Tensor),
    tables: &Tables,
    plan: &Plan<'_>,
    mask: &Mask,
) -> Result<Tensor> {
    let mask = mask.on(qkv.device())?;
    let shape = plan.shape;
    let out = kernels.empty(&[plan.rows, shape.query_size()], qkv.dtype())?;
    if tables.tiles > 0 {
        prefill(kernels, qkv, (keys, values), tables, shape, &mask, &out)?;
    }
    if tables.decoding > 0 {
        decode(kernels, qkv, (keys, values), tables, shape, &mask, &out)?;
    }
    Ok(out)
}

/// Includes log₂e, since GPUs compute 2ˣ.
fn scale(mask: &MaskOnDevice, dim: usize) -> Arg<'static> {
    Arg::F32(mask.log2_scale(dim))
}

fn prefill(
    kernels: &dyn Kernels,
    qkv: &Tensor,
    (keys, values): (&Tensor, &Tensor),
    tables: &Tables,
    shape: PageShape,
    mask: &MaskOnDevice,
    out: &Tensor,
) -> Result<()> {
    let [heads, kv_heads, tokens, _] = sizes(shape);
    let dim = shape.heads.dim;
    let scale = scale(mask, dim);
    let (version, mask) = mask.version();
    let mut args = vec![Arg::In(qkv), Arg::In(keys), Arg::In(values), Arg::In(&tables.tensor), Arg::Out(out)];
    args.extend([heads, kv_heads, tokens, scale]);
    args.extend(mask);
    kernels.launch(&Launch {
        kernel: format!("paged_attention_prefill{version}_{dim}"),
        grid: [tables.tiles as u32, shape.heads.kv as u32, 1],
        block: THREADS,
        // Two stages of 64 keys and 64 values.
        shared_bytes: 2 * 2 * 64 * dim * qkv.dtype().size_in_bytes(),
        args: &args,
        ..Launch::of(PREFILL)
    })
}

fn decode(
    kernels: &dyn Kernels,
    qkv: &Tensor,
    (keys, values): (&Tensor, &Tensor),
    tables: &Tables,
    shape: PageShape,
    mask: &MaskOnDevice,
    out: &Tensor,
) -> Result<()> {
    let [heads, kv_heads, tokens, dim_arg] = sizes(shape);
    let (dim, scale) = (shape.heads.dim, scale(mask, shape.heads.dim));
    let grid = [tables.decoding as u32, shape.heads.kv as u32, tables.splits as u32];
    let (stats, sums) = match &tables.partial {
        Some((stats, sums)) => (Arg::Out(stats), Arg::Out(sums)),
        None => (Arg::Null, Arg::Null),
    };
    let tensors = [Arg::In(qkv), Arg::In(keys), Arg::In(values), Arg::In(&tables.tensor), Arg::Out(out), stats, sums];
    match tables.route {
        KernelVariant::TensorCores => {
            let (version, mask) = mask.version();
            kernels.launch(&Launch {
                kernel: format!("paged_attention_decode{version}_{dim}"),
                grid,
                block: THREADS,
                // For each of four warps: two stages of 16 keys and 16 values, and two numbers for each of 16 rows.
                shared_bytes: 4 * (2 * 2 * 16 * dim * qkv.dtype().size_in_bytes() + 2 * 16 * size_of::<f32>()),
                args: &[&tensors[..], &[heads, kv_heads, tokens, scale], &mask].concat(),
                ..Launch::of(DECODE)
            })?;
        }
        KernelVariant::Rows => {
            let warps = (shape.heads.query / shape.heads.kv).min(ROW_WARPS);
            kernels.launch(&Launch {
                kernel: format!("paged_attention_rows_{}", suffix(qkv.dtype())?),
                grid,
                block: 32 * warps as u32,
                shared_bytes: warps * dim * size_of::<f32>(),
                args: &[&tensors[..], &[heads, kv_heads, tokens, dim_arg, scale], &mask.args()].concat(),
                ..Launch::of(ROWS)
            })?;
        }
    }
    let Some((stats, sums)) = &tables.partial else { return Ok(()) };
    let splits = Arg::U32(tables.splits as u32);
    let tensors = [Arg::In(stats), Arg::In(sums), Arg::In(&tables.tensor), Arg::Out(out)];
    kernels.launch(&Launch {
        kernel: format!("paged_attention_combine_{}", suffix(qkv.dtype())?),
        grid: [tables.decoding as u32, (shape.heads.query as u32).div_ceil(THREADS / 32), 1],
        block: THREADS,
        args: &[&tensors[..], &[heads, splits, dim_arg], &mask.args()].concat(),
        ..Launch::of(ROWS)
    })
}
