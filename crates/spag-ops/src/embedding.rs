//! The embedding: gathers rows of a table, and scatters their gradients.

use candle_core::{DType, Device, Result, Tensor, bail};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::cpu::{self, Stored};
use super::pool;
use crate::kernels::{self, Arg, Kernels, Launch, Module, THREADS, blocks, module, suffix, vector_len};

fn check(ids: &[u32], table: &Tensor) -> Result<(usize, usize)> {
    let (v, d) = table.dims2()?;
    if let Some(id) = ids.iter().find(|id| **id as usize >= v) {
        bail!("embedding: token {id} is outside the vocabulary of {v}");
    }
    Ok((v, d))
}

/// Gathers rows `ids` of `table` [V, D], f32 or bf16 → [N, D]. The result is f32 on a CPU, and in the table's
/// number format with kernels.
///
/// # Errors
/// A token outside the vocabulary, or a table that is not contiguous.
pub fn forward(ids: &[u32], table: &Tensor) -> Result<Tensor> {
    let (_, d) = check(ids, table)?;
    if let Some(kernels) = kernels::of(table.device())? {
        return launch_forward(&*kernels, ids, table);
    }
    let mut x = pool::values(ids.len() * d);
    let rows = x.par_chunks_mut(d.max(1)).zip(ids.par_iter().map(|id| *id as usize * d));
    match table.dtype() {
        DType::BF16 => bf16::read(table, |table| {
            rows.for_each(|(x, at)| table[at..at + d].convert_to_f32_slice(x));
            Ok(())
        })?,
        _ => cpu::read(table, |table| {
            rows.for_each(|(x, at)| x.copy_from_slice(&table[at..at + d]));
            Ok(())
        })?,
    }
    cpu::tensor(x, (ids.len(), d))
}

/// Adds row n of `dx` [N, D] to row `ids[n]` of `dtable` [V, D], in place.
///
/// Tokens are sorted by id, so that rows of the table are summed in parallel, without locks and in a fixed order.
///
/// # Errors
/// A token outside the vocabulary, mismatched shapes, or tensors that are not contiguous f32 (kernels also accept
/// bf16).
pub fn backward(ids: &[u32], dx: &Tensor, dtable: &Tensor) -> Result<()> {
    let (_, d) = check(ids, dtable)?;
    if dx.dims() != [ids.len(), d] {
        bail!("embedding backward: dx is {:?}, expected [{}, {d}]", dx.dims(), ids.len());
    }
    if let Some(kernels) = kernels::of(dx.device())? {
        return launch_backward(&*kernels, ids, dx, dtable);
    }
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|n| ids[*n]);
    cpu::read(dx, |dx| {
        cpu::update(dtable, |dtable| {
            // One task per run of equal ids; each owns its row of the table.
            let runs: Vec<&[usize]> = order.chunk_by(|a, b| ids[*a] == ids[*b]).collect();
            let mut rows: Vec<(&mut [f32], &[usize])> = Vec::with_capacity(runs.len());
            let (mut rest, mut taken) = (dtable, 0);
            for run in runs {
                let id = ids[run[0]] as usize;
                let (_, tail) = rest.split_at_mut((id - taken) * d);
                let (row, tail) = tail.split_at_mut(d);
                rows.push((row, run));
                (rest, taken) = (tail, id + 1);
            }
            rows.into_par_iter().for_each(|(row, run)| {
                for n in run {
                    for (t, g) in row.iter_mut().zip(&dx[n * d..(n + 1) * d]) {
                        *t += g;
                    }
                }
            });
            Ok(())
        })
    })
}

// ── Kernel launches ──

const MODULE: Module = module!("embedding");
/// Longer runs use a kernel whose warps share a run.
const LONG: usize = 32;
const WARP: u32 = 32;

fn launch_forward(kernels: &dyn Kernels, ids: &[u32], table: &Tensor) -> Result<Tensor> {
    launch_gather(kernels, &Tensor::new(ids, table.device())?, table)
}

fn launch_gather(kernels: &dyn Kernels, ids: &Tensor, table: &Tensor) -> Result<Tensor> {
    let (rows, d) = (ids.elem_count(), table.dim(1)?);
    let x = kernels.empty(&[rows, d], table.dtype())?;
    if rows == 0 {
        return Ok(x);
    }
    kernels.launch(&Launch {
        kernel: format!("embedding_forward_{}", suffix(table.dtype())?),
        grid: [rows as u32, blocks(d, vector_len(table.dtype()))?, 1],
        args: &[Arg::In(table), Arg::In(ids), Arg::Out(&x), Arg::U32(d as u32)],
        ..Launch::of(MODULE)
    })?;
    Ok(x)
}

/// Rows sorted by id, stably; short runs before long ones.
struct Runs {
    /// Row indices.
    order: Vec<u32>,
    /// Start of each run in `order` and, last, its length.
    starts: Vec<u32>,
    /// Token id of each run.
    ids: Vec<u32>,
    /// Number of short runs.
    short: usize,
}

impl Runs {
    fn of(ids: &[u32]) -> Self {
        let mut sorted: Vec<u32> = (0..ids.len() as u32).collect();
        sorted.sort_by_key(|row| ids[*row as usize]);
        let mut runs: Vec<&[u32]> = sorted.chunk_by(|a, b| ids[*a as usize] == ids[*b as usize]).collect();
        runs.sort_by_key(|run| run.len() > LONG);
        let mut starts = Vec::with_capacity(runs.len() + 1);
        starts.push(0);
        starts.extend(runs.iter().scan(0, |end, run| {
            *end += run.len() as u32;
            Some(*end)
        }));
        Self {
            order: runs.concat(),
            starts,
            ids: runs.iter().map(|run| ids[run[0] as usize]).collect(),
            short: runs.iter().filter(|run| run.len() <= LONG).count(),
        }
    }
}

fn launch_backward(kernels: &dyn Kernels, ids: &[u32], dx: &Tensor, dtable: &Tensor) -> Result<()> {
    RunsOnDevice::new(ids, dtable.device())?.add(kernels, dx, dtable)
}

/// [`Runs`] in one tensor: `order`, `starts` and `ids`.
#[derive(Clone, Debug)]
struct RunsOnDevice {
    all: Tensor,
    rows: usize,
    runs: usize,
    short: usize,
}

impl RunsOnDevice {
    fn new(ids: &[u32], device: &Device) -> Result<Self> {
        let Runs { order, starts, ids, short } = Runs::of(ids);
        let (rows, runs) = (order.len(), ids.len());
        let all = Tensor::from_vec([order, starts, ids].concat(), rows + 2 * runs + 1, device)?;
        Ok(Self { all, rows, runs, short })
    }

    /// As [`backward`].
    fn add(&self, kernels: &dyn Kernels, dx: &Tensor, dtable: &Tensor) -> Result<()> {
        let Self { all, rows, runs, short } = self;
        if *rows == 0 {
            return Ok(());
        }
        let d = dtable.dim(1)?;
        let order = all.narrow(0, 0, *rows)?;
        let formats = format!("{}_into_{}", suffix(dx.dtype())?, suffix(dtable.dtype())?);
        let vector = vector_len(dx.dtype());
        for (what, first, count) in [("", 0, *short), ("long_", *short, runs - short)] {
            if count == 0 {
                continue;
            }
            let long = !what.is_empty();
            let columns = if long { d.div_ceil(WARP as usize * vector) as u32 } else { blocks(d, vector)? };
            kernels.launch(&Launch {
                kernel: format!("embedding_backward_{what}{formats}"),
                grid: [count as u32, columns, 1],
                shared_bytes: if long { THREADS as usize * vector * size_of::<f32>() } else { 0 },
                args: &[
                    Arg::In(dx),
                    Arg::In(&order),
                    Arg::In(&all.narrow(0, rows + first, count + 1)?),
                    Arg::In(&all.narrow(0, rows + runs + 1 + first, count)?),
                    Arg::Out(dtable),
                    Arg::U32(d as u32),
                ],
                ..Launch::of(MODULE)
            })?;
        }
        Ok(())
    }
}

/// Row indices of repeated gathers and scatters, on a device with kernels.
#[derive(Clone, Debug)]
pub(crate) struct RowsOnDevice {
    ids: Tensor,
    runs: RunsOnDevice,
}

impl RowsOnDevice {
    pub(crate) fn new(ids: &[u32], device: &Device) -> Result<Self> {
        Ok(Self { ids: Tensor::new(ids, device)?, runs: RunsOnDevice::new(ids, device)? })
    }

    /// As [`forward`]. The rows must be inside the table.
    pub(crate) fn gather(&self, kernels: &dyn Kernels, table: &Tensor) -> Result<Tensor> {
        launch_gather(kernels, &self.ids, table)
    }

    /// As [`backward`]. The rows must be inside the table.
    pub(crate) fn add(&self, kernels: &dyn Kernels, dx: &Tensor, dtable: &Tensor) -> Result<()> {
        self.runs.add(kernels, dx, dtable)
    }
}
