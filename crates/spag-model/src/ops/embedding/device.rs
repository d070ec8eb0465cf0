//! Gathering and scattering rows by the kernels of `embedding.cu`.

use candle_core::{Result, Tensor};

use crate::kernels::{Arg, Kernels, Launch, Module, module, suffix};
use crate::ops::elements::{THREADS, blocks, in_vector};

const MODULE: Module = module!("embedding");
/// Runs of more rows than this go to the kernel whose warps share a run's rows.
const LONG: usize = 32;
const WARP: u32 = 32;

pub(super) fn forward(kernels: &dyn Kernels, ids: &[u32], table: &Tensor) -> Result<Tensor> {
    let d = table.dim(1)?;
    let x = kernels.empty(&[ids.len(), d], table.dtype())?;
    if ids.is_empty() {
        return Ok(x);
    }
    let ids = Tensor::new(ids, table.device())?;
    kernels.launch(&Launch {
        module: MODULE,
        kernel: format!("embedding_forward_{}", suffix(table.dtype())?),
        grid: [ids.elem_count() as u32, blocks(d, in_vector(table.dtype()))?, 1],
        block: THREADS,
        shared_bytes: 0,
        args: &[Arg::In(table), Arg::In(&ids), Arg::Out(&x), Arg::U32(d as u32)],
    })?;
    Ok(x)
}

/// The rows sorted by id, those of one id side by side and in their own order; short runs before long ones.
struct Runs {
    /// Rows.
    order: Vec<u32>,
    /// Where in `order` each run begins and, last, its length.
    starts: Vec<u32>,
    /// The id of each run.
    ids: Vec<u32>,
    /// How many runs are short.
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

pub(super) fn backward(kernels: &dyn Kernels, ids: &[u32], dx: &Tensor, dtable: &Tensor) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let d = dtable.dim(1)?;
    let Runs { order, starts, ids, short } = Runs::of(ids);
    // One copy to the device for all three.
    let (rows, runs) = (order.len(), ids.len());
    let all = Tensor::from_vec([order, starts, ids].concat(), rows + 2 * runs + 1, dtable.device())?;
    let order = all.narrow(0, 0, rows)?;
    let formats = format!("{}_into_{}", suffix(dx.dtype())?, suffix(dtable.dtype())?);
    let vector = in_vector(dx.dtype());
    for (what, first, count) in [("", 0, short), ("long_", short, runs - short)] {
        if count == 0 {
            continue;
        }
        let long = !what.is_empty();
        let columns = if long { d.div_ceil(WARP as usize * vector) as u32 } else { blocks(d, vector)? };
        kernels.launch(&Launch {
            module: MODULE,
            kernel: format!("embedding_backward_{what}{formats}"),
            grid: [count as u32, columns, 1],
            block: THREADS,
            shared_bytes: if long { THREADS as usize * vector * size_of::<f32>() } else { 0 },
            args: &[
                Arg::In(dx),
                Arg::In(&order),
                Arg::In(&all.narrow(0, rows + first, count + 1)?),
                Arg::In(&all.narrow(0, rows + runs + 1 + first, count)?),
                Arg::Out(dtable),
                Arg::U32(d as u32),
            ],
        })?;
    }
    Ok(())
}
