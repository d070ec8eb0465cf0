//! Quantised matrices of devices that run kernels.
//!
//! Up to [`GEMV_ROWS`] rows are multiplied by the codes, with sums in f32 of the numbers that the codes stand for; a row's result does
//! not depend on the other rows. More rows are multiplied by the matrix dequantised to the number format of the activations, by the
//! product of other weights; in bf16 the weights are rounded.

use candle_core::{DType, Device, Result, Tensor, bail};
use rayon::prelude::*;

use super::format::{BLOCK, BlockFormat};
use super::matrix::quantised_span;
use crate::kernels::{Accumulate, Arg, Kernels, Launch, Module, SumOrder, THREADS, blocks, module, suffix, vector_len};
use crate::matmul;
use crate::product::Values;

/// The most rows that are multiplied by the codes. The multiplications of 16 rows take about half (H100) or two thirds (A100) of the
/// time in which a matrix of 16 bits is written and read, by counting instructions and bytes; those of 24 or 32 rows take as long.
pub(crate) const GEMV_ROWS: usize = 16;
/// Bytes of the scale of a block.
const SCALE: usize = 2;
/// Bytes of shared memory of a block for activations, which a kernel has without opting in.
const STAGED: usize = 32 << 10;
/// The size of tiles of activations is a multiple of this one.
const TILE: usize = 1024;

/// A matrix [n, k] in one of the [formats](BlockFormat::ON_GPUS) of devices.
pub(crate) struct DeviceMatrix {
    format: BlockFormat,
    n: usize,
    k: usize,
    /// Bytes [n, k] of q8_0, or [n, k / 2] of q4_0: code i of a block in the low half of byte i, code i + 16 in the high one.
    codes: Tensor,
    /// The bytes of numbers in f16, [n, k / 32].
    scales: Tensor,
}

impl DeviceMatrix {
    /// Quantises row-major weights [n, k] on the host, to the bits of the CPU's, and copies them to a device.
    ///
    /// # Errors
    /// A format that devices do not have; a k that 32 does not divide; fewer weights than n·k; a weight that is not finite or too
    /// large for a scale in f16.
    pub(crate) fn new(
        format: BlockFormat,
        (n, k): (usize, usize),
        weights: Values<'_>,
        device: &Device,
    ) -> Result<Self> {
        let bytes = match format {
            BlockFormat::Q8_0 => BLOCK,
            BlockFormat::Q4_0 => BLOCK / 2,
            other => bail!("{other}: kernels have no such weights"),
        };
        if k == 0 || !k.is_multiple_of(BLOCK) || weights.len() < n * k {
            bail!("{format}: {} weights for [{n}, {k}], of whose rows {BLOCK} must divide the size", weights.len());
        }
        let spans = k / BLOCK;
        let (mut codes, mut scales) = (vec![0u8; n * spans * bytes], vec![0u8; n * spans * SCALE]);
        let rows = codes.par_chunks_exact_mut(spans * bytes).zip(scales.par_chunks_exact_mut(spans * SCALE));
        rows.enumerate().try_for_each(|(row, (codes, scales))| {
            let spans = codes.chunks_exact_mut(bytes).zip(scales.chunks_exact_mut(SCALE));
            for (index, (codes, scale)) in spans.enumerate() {
                let span = quantised_span(format, weights, row * k + index * BLOCK);
                if !span.is_finite() {
                    bail!("{format}: row {row} has a weight that is not finite or too large");
                }
                scale.copy_from_slice(&span.scale.to_le_bytes());
                let (low, high) = span.codes[..BLOCK].split_at(bytes);
                codes.copy_from_slice(low);
                // Empty with a byte a code.
                codes.iter_mut().zip(high).for_each(|(to, code)| *to |= code << 4);
            }
            Ok(())
        })?;
        let put = |bytes: Vec<u8>, each: usize| Tensor::from_vec(bytes, (n, spans * each), device);
        Ok(Self { format, n, k, codes: put(codes, bytes)?, scales: put(scales, SCALE)? })
    }

    /// Input size.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// Output size.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// [residual +] x·Wᵀ in number format `dtype`: that of `x`, or f32 without a residual. The sum overwrites the residual.
    ///
    /// # Errors
    /// Mismatched shapes or number formats, or a failure of the device.
    pub(crate) fn product(
        &self,
        kernels: &dyn Kernels,
        x: &Tensor,
        residual: Option<&Tensor>,
        dtype: DType,
    ) -> Result<Tensor> {
        let (rows, inputs) = x.dims2()?;
        let fits = |residual: &Tensor| residual.dims() == [rows, self.n] && residual.dtype() == x.dtype();
        if inputs != self.k || !residual.is_none_or(|residual| fits(residual) && dtype == x.dtype()) {
            let residual = residual.map(|residual| (residual.dims(), residual.dtype()));
            bail!(
                "quantised linear: x is {:?}, the weight [{}, {}], the residual {residual:?}",
                x.dims(),
                self.n,
                self.k
            );
        }
        if rows <= GEMV_ROWS {
            return self.launch_gemv(kernels, x, residual, dtype);
        }
        let weight = self.dequantised(kernels, x.dtype())?;
        match residual {
            Some(residual) => {
                matmul::launch_linear_into(kernels, (x, &weight), residual, (Accumulate::Yes, SumOrder::Fixed))?;
                Ok(residual.clone())
            }
            None => matmul::launch_linear(kernels, x, &weight, dtype),
        }
    }

    /// The numbers that the weights stand for, [n, k], rounded to f32 or bf16.
    ///
    /// # Errors
    /// Another number format, or a failure of the device.
    pub(crate) fn dequantised(&self, kernels: &dyn Kernels, dtype: DType) -> Result<Tensor> {
        let weights = kernels.empty(&[self.n, self.k], dtype)?;
        let count = self.n * self.k;
        kernels.launch(&Launch {
            kernel: format!("quantised_dequantise_{}_{}", self.format, suffix(dtype)?),
            grid: [blocks(count, vector_len(dtype))?, 1, 1],
            args: &[Arg::In(&self.codes), Arg::In(&self.scales), Arg::Out(&weights), Arg::U64(count as u64)],
            ..Launch::of(DEQUANTISE)
        })?;
        Ok(weights)
    }

    fn launch_gemv(
        &self,
        kernels: &dyn Kernels,
        x: &Tensor,
        residual: Option<&Tensor>,
        dtype: DType,
    ) -> Result<Tensor> {
        let rows = x.dim(0)?;
        let y = match residual {
            Some(residual) => residual.clone(),
            None => kernels.empty(&[rows, self.n], dtype)?,
        };
        // Rows of x, and outputs of a warp, of a kernel.
        let (m, outputs) = match rows {
            0 | 1 => (1, 2),
            2 => (2, 2),
            3 | 4 => (4, 4),
            _ => (8, 4),
        };
        let staged = m * x.dtype().size_in_bytes();
        let tile = (STAGED / staged / TILE * TILE).min(self.k.next_multiple_of(TILE));
        let of_block = THREADS as usize / 32 * outputs;
        let Ok(grid) = u32::try_from(self.n.div_ceil(of_block) * rows.div_ceil(m)) else {
            bail!("quantised linear: {} outputs are too many for one kernel", self.n)
        };
        let (narrow, wide) = if dtype == x.dtype() { (Arg::Out(&y), Arg::Null) } else { (Arg::Null, Arg::Out(&y)) };
        kernels.launch(&Launch {
            kernel: format!("quantised_gemv_{}_{}_{m}", self.format, suffix(x.dtype())?),
            grid: [grid, 1, 1],
            shared_bytes: tile * staged,
            args: &[
                Arg::In(&self.codes),
                Arg::In(&self.scales),
                Arg::In(x),
                residual.map_or(Arg::Null, Arg::In),
                narrow,
                wide,
                Arg::U32(self.n as u32),
                Arg::U32(self.k as u32),
                Arg::U32(rows as u32),
                Arg::U32(tile as u32),
            ],
            ..Launch::of(GEMV)
        })?;
        Ok(y)
    }
}

// ── Kernel launches ──

const GEMV: Module = module!("quantised_gemv");
const DEQUANTISE: Module = module!("quantised_dequantise");
