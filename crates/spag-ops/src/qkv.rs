//! Splits a fused QKV product into queries, keys and values, and joins their gradients, optionally with RoPE.
//!
//! Attention reads them separately; one fused product is one launch instead of three.

use candle_core::{Result, Tensor, bail};

use super::attention::Heads;
use super::rope::{Direction, Positions, RopeTable, rotate, rotate_leading};
use crate::kernels::{self, Arg, Kernels, Launch, Module, THREADS, module, suffix, vector_len};

/// Positions of rows, and the RoPE table.
pub type Rotation<'a> = (&'a Positions, &'a RopeTable);

/// Columns of the queries, and of the keys or values.
fn sizes(heads: Heads) -> (usize, usize) {
    (heads.query * heads.dim, heads.kv * heads.dim)
}

/// Splits `x` [N, (H + 2·KV)·head size] into queries [N, H·head size] and keys and values [N, KV·head size]. Applies RoPE to queries and
/// keys if `rotation` is given.
///
/// # Errors
/// Mismatched shapes, positions outside the table, or a tensor that is not contiguous f32 (kernels also accept bf16).
pub fn split(x: &Tensor, heads: Heads, rotation: Option<Rotation<'_>>) -> Result<[Tensor; 3]> {
    let ((n, width), (q, kv)) = (x.dims2()?, sizes(heads));
    if width != q + 2 * kv {
        bail!("qkv: x is [{n}, {width}] with {heads:?}");
    }
    check(n, heads, rotation)?;
    if let Some(kernels) = kernels::of(x.device())? {
        let empty = |size| kernels.empty(&[n, size], x.dtype());
        let parts = [empty(q)?, empty(kv)?, empty(kv)?];
        launch(&*kernels, (x, &parts), heads, rotation, Direction::Forward)?;
        return Ok(parts);
    }
    let part = |first, size| x.narrow(1, first, size)?.force_contiguous();
    let parts = [part(0, q)?, part(q, kv)?, part(q + kv, kv)?];
    if let Some((positions, table)) = rotation {
        rotate(&parts[0], positions, table, Direction::Forward)?;
        rotate(&parts[1], positions, table, Direction::Forward)?;
    }
    Ok(parts)
}

/// The gradient of `x` of [`split`], given those of its results.
///
/// # Errors
/// As [`split`].
pub fn join(parts: [&Tensor; 3], heads: Heads, rotation: Option<Rotation<'_>>) -> Result<Tensor> {
    let (n, (q, kv)) = (parts[0].dim(0)?, sizes(heads));
    let fits = |(part, size): (&&Tensor, usize)| part.dims() == [n, size] && part.dtype() == parts[0].dtype();
    if !parts.iter().zip([q, kv, kv]).all(fits) {
        bail!("qkv: {:?} with {heads:?}", parts.map(Tensor::dims));
    }
    check(n, heads, rotation)?;
    if let Some(kernels) = kernels::of(parts[0].device())? {
        let x = kernels.empty(&[n, q + 2 * kv], parts[0].dtype())?;
        launch(&*kernels, (&x, &parts.map(Tensor::clone)), heads, rotation, Direction::Backward)?;
        return Ok(x);
    }
    let x = Tensor::cat(&parts, 1)?;
    if let Some((positions, table)) = rotation {
        rotate_leading(&x, q + kv, positions, table, Direction::Backward)?;
    }
    Ok(x)
}

fn check(rows: usize, heads: Heads, rotation: Option<Rotation<'_>>) -> Result<()> {
    let Some((positions, table)) = rotation else { return Ok(()) };
    if heads.dim != table.head() {
        bail!("qkv: a rotation of heads of {} for {heads:?}", table.head());
    }
    positions.check(rows, table)
}

// ── Kernel launches ──

const MODULE: Module = module!("qkv");

fn launch(
    kernels: &dyn Kernels,
    (x, [q, k, v]): (&Tensor, &[Tensor; 3]),
    heads: Heads,
    rotation: Option<Rotation<'_>>,
    direction: Direction,
) -> Result<()> {
    let ((n, width), (q_size, kv_size)) = (x.dims2()?, sizes(heads));
    let half = rotation.map_or(0, |(_, table)| table.half());
    let dtype = x.dtype();
    let vector = vector_len(dtype);
    let whole = [q_size, kv_size].iter().all(|size| size.is_multiple_of(vector))
        && rotation.is_none_or(|(_, table)| table.has_whole(vector));
    let (each, how) = if whole { (vector, "vectors") } else { (1, "single") };
    let threads = width.div_ceil(each) as u32;
    let block = threads.next_multiple_of(32).clamp(32, THREADS);
    let angles = rotation
        .map(|(positions, table)| Ok::<_, candle_core::Error>((positions.on(x.device())?, table.on(x.device())?)));
    let angles = angles.transpose()?;
    let (what, [x, q, k, v]) = match direction {
        Direction::Forward => ("split", [Arg::In(x), Arg::Out(q), Arg::Out(k), Arg::Out(v)]),
        Direction::Backward => ("join", [Arg::Out(x), Arg::In(q), Arg::In(k), Arg::In(v)]),
    };
    let [positions, cos, sin] = match &angles {
        Some((positions, (cos, sin))) => [positions, cos, sin].map(Arg::In),
        None => [Arg::Null; 3],
    };
    let sizes = [q_size, kv_size, half, heads.dim].map(|size| Arg::U32(size as u32));
    kernels.launch(&Launch {
        kernel: format!("qkv_{what}_{how}_{}", suffix(dtype)?),
        grid: [n as u32, threads.div_ceil(block), 1],
        block,
        args: &[x, q, k, v, positions, cos, sin, sizes[0], sizes[1], sizes[2], sizes[3]],
        ..Launch::of(MODULE)
    })
}
