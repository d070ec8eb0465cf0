//! Quantised matrices on devices with kernels.
//!
//! Products of up to [`GEMV_ROWS`] rows read the codes directly and accumulate the dequantised numbers in f32; a row's result does not
//! depend on the other rows. For more rows, the matrix is dequantised to the number format of the activations (rounded, for bf16) and
//! multiplied like an unquantised weight.

use candle_core::{DType, Device, Result, Tensor, bail};
use rayon::prelude::*;

use super::format::{BLOCK, BlockFormat};
use super::matrix::quantised_span;
use crate::kernels::{Accumulate, Arg, Kernels, Launch, Module, SumOrder, THREADS, blocks, module, suffix, vector_len};
use crate::matmul;
use crate::product::Values;

/// Maximum rows multiplied with the codes. For 16 rows the multiplications take about half (H100) or two thirds (A100) of the time
/// of writing and reading a 16-bit matrix, by counting instructions and bytes; 24 or 32 rows would take as long.
pub(crate) const GEMV_ROWS: usize = 16;
/// Bytes of the scale of a block.
const SCALE: usize = 2;
/// Shared memory of a block for activations in bytes, available without opting in.
const STAGED: usize = 32 << 10;
/// Tiles of activations are a multiple of this size.
const TILE: usize = 1024;

/// A matrix [n, k] in one of the [GPU formats](BlockFormat::ON_GPUS).
pub(crate) struct DeviceMatrix {
    format: BlockFormat,
    n: usize,
    k: usize,
    /// Bytes [n, k] of q8_0, or [n, k / 2] of q4_0: byte i of a block holds code i in its low half and code i + 16 in its
    /// high half.
    codes: Tensor,
    /// The f16 scales as bytes, [n, k / 32].
    scales: Tensor,
}

impl DeviceMatrix {
    /// Quantises row-major weights [n, k] on the host, bit-identical to the CPU format, and copies them to a
    /// device.
    ///
    /// # Errors
    /// A format without kernels; a k that is not a multiple of 32; fewer weights than n·k; a weight that is not finite or too
    /// large for an f16 scale.
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
                // Empty for one byte per code.
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

    /// [residual +] x·Wᵀ in number format `dtype`: that of `x`, or f32 without a residual. The residual is overwritten.
    ///
    /// # Errors
    /// Mismatched shapes or number formats, or an error of the device.
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

    /// The dequantised weights, [n, k], rounded to f32 or bf16.
    ///
    /// # Errors
    /// Another number format, or an error of the device.
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
        // Rows of x per kernel, and outputs per warp.
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
