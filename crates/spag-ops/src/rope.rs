//! RoPE in the half-split layout of LLaMA: element i of a head is rotated with element i + half. A partial rotation leaves
//! the elements after these pairs as they are.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, Error, Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, simd};
use crate::kernels::{self, Arg, Kernels, Launch, Module, THREADS, module, suffix, vector_len};
use crate::memory::require_room;

/// Cosines and sines of all positions and frequencies.
///
/// On a CPU, positions are computed on first use: a configuration may allow many more than a run reaches.
#[derive(Clone, Debug)]
pub struct RopeTable {
    /// Rotated pairs of a head's elements.
    half: usize,
    /// Elements of a head.
    head: usize,
    /// Number of rows: positions × sets of frequencies.
    positions: usize,
    /// The frequency of each pair, in every set.
    frequencies: Vec<Vec<f32>>,
    /// The factor of cosines and sines.
    factor: f32,
    /// The rows computed so far, shared by clones.
    rows: Arc<Mutex<Arc<Rows>>>,
    /// Copies on devices, shared by clones.
    copies: Arc<Mutex<Vec<(Tensor, Tensor)>>>,
}

#[derive(Debug, Default)]
struct Rows {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// The positions of a batch's rows, validated and uploaded once. With several sets of frequencies these are rows of the table
/// ([`RopeTable::row`]).
#[derive(Clone, Debug)]
pub struct Positions {
    values: Vec<u32>,
    /// The largest position plus one.
    end: usize,
    /// Device copy, if kernels are used.
    copy: Option<Tensor>,
}

impl Positions {
    /// Positions of rows on `device`, for rotation with `table`.
    ///
    /// # Errors
    /// A position outside the table, or out of memory.
    pub fn new(positions: &[u32], table: &RopeTable, device: &Device) -> Result<Self> {
        let end = positions.iter().max().map_or(0, |p| *p as usize + 1);
        table.check(end)?;
        let copy = match kernels::of(device)? {
            Some(_) if !positions.is_empty() => Some(Tensor::new(positions, device)?),
            _ => None,
        };
        Ok(Self { values: positions.to_vec(), end, copy })
    }

    /// The device copy, if kernels are used.
    pub fn tensor(&self) -> Option<&Tensor> {
        self.copy.as_ref()
    }

    /// Checks the number of rows, and that positions are inside the table.
    pub(crate) fn check(&self, rows: usize, table: &RopeTable) -> Result<()> {
        if self.values.len() != rows {
            bail!("rope: {} positions for {rows} rows", self.values.len());
        }
        table.check(self.end)
    }

    /// An uninitialized device copy of the same length. Its positions must not exceed these.
    pub fn uninit_like(&self, kernels: &dyn Kernels) -> Result<Self> {
        let copy = self.copy.as_ref().map(|copy| kernels.empty(copy.dims(), copy.dtype())).transpose()?;
        Ok(Self { copy, ..self.clone() })
    }

    /// A copy on `device`.
    pub(crate) fn on(&self, device: &Device) -> Result<Tensor> {
        match &self.copy {
            Some(copy) if copy.device().same_device(device) => Ok(copy.clone()),
            _ => Tensor::new(self.values.as_slice(), device),
        }
    }
}

/// Direction of rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The forward pass.
    Forward,
    /// The backward pass: the inverse rotation, which is the transpose.
    Backward,
}

impl RopeTable {
    /// Angles position × frequency for `positions` positions, in f32, with one frequency per pair of a head's
    /// elements.
    pub fn new(frequencies: Vec<f32>, positions: usize) -> Self {
        let half = frequencies.len();
        Self {
            half,
            head: 2 * half,
            positions,
            frequencies: vec![frequencies],
            factor: 1.0,
            rows: Arc::default(),
            copies: Arc::default(),
        }
    }

    /// Multiplies all cosines and sines by a factor, and so the rotated elements.
    pub fn with_factor(mut self, factor: f32) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the head size. Elements of a head after the pairs are not rotated.
    ///
    /// # Errors
    /// Heads that are smaller than the pairs, or odd.
    pub fn in_heads(mut self, head: usize) -> Result<Self> {
        if head < 2 * self.half || !head.is_multiple_of(2) {
            bail!("rope: {} pairs in heads of {head}", self.half);
        }
        self.head = head;
        Ok(self)
    }

    /// Adds another set of frequencies for the same pairs. Every row of a batch selects its set.
    ///
    /// # Errors
    /// Another number of frequencies.
    pub fn with_set(mut self, frequencies: Vec<f32>) -> Result<Self> {
        if frequencies.len() != self.half {
            bail!("rope: sets of {} and {} frequencies", self.half, frequencies.len());
        }
        let sets = self.frequencies.len();
        self.positions = self.positions / sets * (sets + 1);
        self.frequencies.push(frequencies);
        Ok(self)
    }

    /// The row of a position in a set. A position's rows are adjacent, so that a short text needs a short table.
    pub fn row(&self, position: u32, set: u32) -> u32 {
        position * self.frequencies.len() as u32 + set
    }

    /// Checks that all positions before `end` are in the table.
    fn check(&self, end: usize) -> Result<()> {
        if end > self.positions {
            bail!("rope: position {} is outside the {} positions of the model", end - 1, self.positions);
        }
        Ok(())
    }

    /// The table up to at least position `end`.
    fn rows(&self, end: usize) -> Result<Arc<Rows>> {
        self.check(end)?;
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let known = rows.cos.len().checked_div(self.half).unwrap_or(0);
        if known < end {
            // Doubles each time, so that a growing text does not extend it at every step.
            let count = end.next_power_of_two().max(FIRST_ROWS).min(self.positions);
            let sets = self.frequencies.len();
            let angles =
                (0..count).flat_map(|row| self.frequencies[row % sets].iter().map(move |f| (row / sets) as f32 * f));
            let scaled = |angle: f32| {
                let (sin, cos) = angle.sin_cos();
                (sin * self.factor, cos * self.factor)
            };
            let (sin, cos) = angles.map(scaled).unzip();
            *rows = Arc::new(Rows { cos, sin });
        }
        Ok(rows.clone())
    }

    /// Rotated pairs of a head's elements.
    pub(crate) fn half(&self) -> usize {
        self.half
    }

    /// Elements of a head.
    pub(crate) fn head(&self) -> usize {
        self.head
    }

    /// Whether kernels can handle `vector` adjacent pairs at once.
    pub(crate) fn has_whole(&self, vector: usize) -> bool {
        [self.half, self.head / 2].iter().all(|pairs| pairs.is_multiple_of(vector))
    }

    /// Cosines and sines on `device`, uploaded on first use.
    pub(crate) fn on(&self, device: &Device) -> Result<(Tensor, Tensor)> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = copies.iter().find(|(cos, _)| cos.device().same_device(device)) {
            return Ok(copy.clone());
        }
        // All positions at once: a captured graph keeps the addresses.
        let bytes = (self.positions as u64).saturating_mul(self.half as u64).saturating_mul(8);
        let what = || format!("the RoPE table of {} positions", self.positions);
        require_room(bytes, device, what, "lower max_position_embeddings in config.json").map_err(Error::wrap)?;
        let rows = self.rows(self.positions)?;
        let copy = (Tensor::new(rows.cos.as_slice(), device)?, Tensor::new(rows.sin.as_slice(), device)?);
        copies.push(copy.clone());
        Ok(copy)
    }
}

/// Positions computed initially.
const FIRST_ROWS: usize = 1024;
/// Rows per task.
const ROWS: usize = 32;

/// Rotates every head of `x` [N, H·head size] in place; row n has the nth position.
///
/// # Errors
/// Mismatched shapes, positions outside the table, or a tensor that is not contiguous f32 (kernels also accept bf16).
pub fn rotate(x: &Tensor, positions: &Positions, table: &RopeTable, direction: Direction) -> Result<()> {
    rotate_leading(x, x.dim(1)?, positions, table, direction)
}

/// [`rotate`] for the heads in the first `columns` columns of `x` [N, W]: queries and keys of a fused QKV tensor.
pub fn rotate_leading(
    x: &Tensor,
    columns: usize,
    positions: &Positions,
    table: &RopeTable,
    direction: Direction,
) -> Result<()> {
    let (n, width) = x.dims2()?;
    let (half, head_size) = (table.half, table.head);
    let rows = &positions.values;
    if half == 0 || columns > width || !columns.is_multiple_of(head_size) {
        bail!("rope: x is [{n}, {width}], {columns} columns, head size {head_size}");
    }
    positions.check(n, table)?;
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_rotate(&*kernels, x, columns, positions, table, direction);
    }
    let sign = match direction {
        Direction::Forward => 1.0,
        Direction::Backward => -1.0,
    };
    let known = table.rows(positions.end)?;
    cpu::update(x, |x| {
        x.par_chunks_mut(width.max(1) * ROWS).zip(rows.par_chunks(ROWS)).for_each(|(x, positions)| {
            simd::vectorized(
                #[inline(always)]
                || {
                    for (row, p) in x.chunks_exact_mut(width).zip(positions) {
                        let at = *p as usize * half;
                        let (cos, sin) = (&known.cos[at..at + half], &known.sin[at..at + half]);
                        for head in row[..columns].chunks_exact_mut(head_size) {
                            let (a, b) = head[..2 * half].split_at_mut(half);
                            for i in 0..half {
                                let (u, v, s) = (a[i], b[i], sin[i] * sign);
                                a[i] = u * cos[i] - v * s;
                                b[i] = v * cos[i] + u * s;
                            }
                        }
                    }
                },
            );
        });
        Ok(())
    })
}

// ── Kernel launches ──

const MODULE: Module = module!("rope");

fn launch_rotate(
    kernels: &dyn Kernels,
    x: &Tensor,
    columns: usize,
    positions: &Positions,
    table: &RopeTable,
    direction: Direction,
) -> Result<()> {
    let (n, width) = x.dims2()?;
    let positions = positions.on(x.device())?;
    let (cos, sin) = table.on(x.device())?;
    let (half, pairs) = (table.half, columns / table.head * table.half);
    let vector = vector_len(x.dtype());
    let (each, how) = if table.has_whole(vector) { (vector, "vectors") } else { (1, "single") };
    let threads = pairs.div_ceil(each) as u32;
    let block = threads.next_multiple_of(32).clamp(32, THREADS);
    let sign = match direction {
        Direction::Forward => 1.0,
        Direction::Backward => -1.0,
    };
    kernels.launch(&Launch {
        kernel: format!("rope_{how}_{}", suffix(x.dtype())?),
        grid: [n as u32, threads.div_ceil(block), 1],
        block,
        args: &[
            Arg::Out(x),
            Arg::In(&positions),
            Arg::In(&cos),
            Arg::In(&sin),
            Arg::U32(width as u32),
            Arg::U32(pairs as u32),
            Arg::U32(half as u32),
            Arg::U32(table.head as u32),
            Arg::F32(sign),
        ],
        ..Launch::of(MODULE)
    })
}
