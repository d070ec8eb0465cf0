//! Linear layers for generation, with packed weights. A row's result does not depend on the other rows: always on a CPU, and with
//! kernels if sums have a fixed order.
//!
//! On a CPU, the weight's format determines the arithmetic. With bf16 weights, activations are rounded to bf16, and accumulation
//! and the output are in f32. Quantised weights use [integer products](super::quantised).

mod rows;

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor, bail};
use half::bf16;

use super::cpu::{self, Stored};
use super::product::{Bf16Panels, CpuPath, Panels, Rows, SharedMemory, Start, Values, Widened};
use super::quantised::{BlockFormat, DeviceMatrix, QuantisedMatrix};
use super::{matmul, pool, product};
use crate::kernels::{self, Accumulate, Kernels, SumOrder};

pub use rows::{dequantise, rows};

/// Packed weights of a linear layer, or of several layers with the same input.
pub struct PackedWeight(Packing);

enum Packing {
    /// Packed in f32 for the CPU.
    Wide(Panels<Widened<f32>>),
    /// Packed for bf16 products on the CPU.
    Narrow(Bf16Panels),
    /// Quantised for the CPU.
    Quantised(QuantisedMatrix),
    /// Quantised for kernels.
    QuantisedRows(DeviceMatrix),
    /// Weights with the same input, stacked along the outputs, each with its own packing.
    Stack { weights: Vec<PackedWeight>, outputs: usize },
    /// For kernels: [O, I], sharing the weight's memory.
    Rows(Tensor),
}

impl PackedWeight {
    /// Packs `weight`, [O, I]. Layers with the same input are stacked into one weight.
    ///
    /// # Errors
    /// A tensor that is not contiguous, or neither f32 nor bf16.
    pub fn new(weight: &Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        if kernels::of(weight.device())?.is_some() {
            return Ok(Self(Packing::Rows(weight.clone())));
        }
        let extents = (outputs, inputs);
        let narrow = |values: &[bf16]| Bf16Panels::pack(CpuPath::current(), extents, values);
        Ok(Self(match weight.dtype() {
            DType::BF16 => Packing::Narrow(bf16::read(weight, |values| Ok(narrow(values)))?),
            _ => Packing::Wide(cpu::read(weight, |values| Ok(Panels::pack(extents, values)))?),
        }))
    }

    /// Quantises `weight`, [O, I], on the host for products on `device`.
    ///
    /// # Errors
    /// A tensor that is not contiguous, or neither f32 nor bf16; an I that the format does not [divide](BlockFormat::of_inputs); a
    /// weight that is not finite or too large for an f16 scale; or a GPU and a format that is not in [`BlockFormat::ON_GPUS`].
    pub fn quantised(weight: &Tensor, format: BlockFormat, device: &Device) -> Result<Self> {
        let extents = weight.dims2()?;
        // Copies only the view's memory.
        let weight = match weight.device() {
            Device::Cpu => weight.clone(),
            _ => weight.force_contiguous()?.to_device(&Device::Cpu)?,
        };
        let packing = |values: Values<'_>| match kernels::of(device)? {
            Some(_) => Ok(Packing::QuantisedRows(DeviceMatrix::new(format, extents, values, device)?)),
            None => Ok(Packing::Quantised(QuantisedMatrix::new(format, extents, values)?)),
        };
        Ok(Self(Values::read(&weight, packing)?))
    }

    /// A weight [`outputs`, `inputs`] for the CPU from rows in ggml's file format: [`BlockFormat::stored_bytes`] per block.
    ///
    /// # Errors
    /// Bytes of a wrong size, an input size that the format does not divide, or a scale that is not finite.
    pub fn stored(format: BlockFormat, (outputs, inputs): (usize, usize), bytes: &[u8]) -> Result<Self> {
        Ok(Self(Packing::Quantised(QuantisedMatrix::stored(format, (outputs, inputs), bytes)?)))
    }

    /// Stacks weights with the same input, [Σ O, I]; each keeps its packing.
    ///
    /// # Errors
    /// No weights, weights of different inputs, or weights for kernels.
    pub fn stack(weights: Vec<Self>) -> Result<Self> {
        let inputs = weights.first().map(Self::inputs);
        let for_kernels = |weight: &Self| matches!(weight.0, Packing::Rows(_) | Packing::QuantisedRows(_));
        if weights.iter().any(|weight| Some(weight.inputs()) != inputs || for_kernels(weight)) {
            bail!("packed linear: weights of different inputs or devices are not stacked");
        }
        match <[Self; 1]>::try_from(weights) {
            Ok([one]) => Ok(one),
            Err(weights) if weights.is_empty() => bail!("packed linear: no weights to stack"),
            Err(weights) => {
                let outputs = weights.iter().map(Self::outputs).sum();
                Ok(Self(Packing::Stack { weights, outputs }))
            }
        }
    }

    /// Bytes of a quantised weight of `outputs` rows of `inputs` weights. Rows are padded to a multiple of 16.
    pub fn quantised_bytes(format: BlockFormat, outputs: usize, inputs: usize) -> u64 {
        QuantisedMatrix::bytes(format, (outputs, inputs))
    }

    /// [`PackedWeight::new`] for views of one memory: on a CPU, packs in place if the rows of every view fill whole panels.
    /// All views of the memory become empty.
    ///
    /// # Errors
    /// As [`PackedWeight::new`].
    pub fn in_place(weights: &[Tensor]) -> Result<Vec<Self>> {
        let Some(first) = weights.first() else { return Ok(Vec::new()) };
        let extents = weights.iter().map(Tensor::dims2).collect::<Result<Vec<_>>>()?;
        if kernels::of(first.device())?.is_some() || !extents.iter().all(|(outputs, _)| Self::fits_in_place(*outputs)) {
            return weights.iter().map(Self::new).collect();
        }
        let ranges = weights.iter().map(cpu::range).collect::<Result<Vec<_>>>()?;
        let path = CpuPath::current();
        Ok(match first.dtype() {
            DType::BF16 => pack_shared(
                bf16::take(first)?,
                (&extents, &ranges),
                |extents, values| Bf16Panels::pack_in_place(path, extents, values),
                |extents, values, start| Packing::Narrow(Bf16Panels::of_packed(path, extents, values, start)),
            ),
            _ => pack_shared(
                f32::take(first)?,
                (&extents, &ranges),
                Panels::<Widened<f32>>::pack_in_place,
                |extents, values, start| Packing::Wide(Panels::of_packed(extents, values, start)),
            ),
        })
    }

    /// Packs another weight of the same extents, f32 or bf16. A CPU converts it to this weight's format and reuses its
    /// memory; kernels share the memory of the new weight.
    ///
    /// # Errors
    /// Other extents; a tensor that is not contiguous, or neither f32 nor bf16; or a quantised weight. The weight is then
    /// unchanged.
    pub fn repack(&mut self, weight: &Tensor) -> Result<()> {
        let (outputs, inputs) = weight.dims2()?;
        if (outputs, inputs) != (self.outputs(), self.inputs()) {
            bail!("repack: [{outputs}, {inputs}] for a weight of [{}, {}]", self.outputs(), self.inputs());
        }
        match &mut self.0 {
            Packing::Wide(panels) => Values::read(weight, |values| {
                panels.repack(values);
                Ok(())
            }),
            Packing::Narrow(panels) => Values::read(weight, |values| {
                panels.repack(values);
                Ok(())
            }),
            Packing::Quantised(_) | Packing::QuantisedRows(_) | Packing::Stack { .. } => {
                bail!("repack: quantised weights are not replaced")
            }
            Packing::Rows(rows) => {
                *rows = weight.clone();
                Ok(())
            }
        }
    }

    /// Whether a weight of `outputs` rows can be packed in its own memory.
    pub fn fits_in_place(outputs: usize) -> bool {
        product::fit_in_place(outputs)
    }

    /// `y[m, O] = start + x[m, I]·Wᵀ`, on the host.
    pub(super) fn product_on_host(&self, m: usize, x: &[f32], y: &mut [f32], start: Start<'_>) -> Result<()> {
        match &self.0 {
            Packing::Wide(panels) => panels.product(m, Rows { values: x, stride: panels.k() }, y, start),
            Packing::Narrow(panels) => panels.product(m, x, y, start),
            Packing::Quantised(matrix) => matrix.product(m, x, y, start),
            Packing::Stack { weights, outputs } => {
                let mut first = 0;
                for weight in weights {
                    let columns = weight.outputs();
                    let mut part = pool::values(m * columns);
                    weight.product_on_host(m, x, &mut part, Start::Zero)?;
                    for (index, part) in part.chunks_exact(columns.max(1)).enumerate() {
                        let at = index * outputs + first;
                        start.put(part, at, &mut y[at..at + columns]);
                    }
                    pool::give(part);
                    first += columns;
                }
            }
            Packing::Rows(_) | Packing::QuantisedRows(_) => bail!("packed linear: the weight was packed for kernels"),
        }
        Ok(())
    }

    /// Input size.
    pub fn inputs(&self) -> usize {
        match &self.0 {
            Packing::Wide(panels) => panels.k(),
            Packing::Narrow(panels) => panels.k(),
            Packing::Quantised(matrix) => matrix.k(),
            Packing::QuantisedRows(matrix) => matrix.k(),
            Packing::Stack { weights, .. } => weights.first().map_or(0, Self::inputs),
            Packing::Rows(rows) => rows.dims()[1],
        }
    }

    /// Output size.
    pub fn outputs(&self) -> usize {
        match &self.0 {
            Packing::Wide(panels) => panels.n(),
            Packing::Narrow(panels) => panels.n(),
            Packing::Quantised(matrix) => matrix.n(),
            Packing::QuantisedRows(matrix) => matrix.n(),
            Packing::Stack { outputs, .. } => *outputs,
            Packing::Rows(rows) => rows.dims()[0],
        }
    }
}

/// Packs matrices in `values` with these extents and ranges in place.
fn pack_shared<T>(
    mut values: Vec<T>,
    (extents, ranges): (&[(usize, usize)], &[Range<usize>]),
    pack: impl Fn((usize, usize), &mut [T]),
    packing: impl Fn((usize, usize), Arc<SharedMemory<T>>, usize) -> Packing,
) -> Vec<PackedWeight> {
    for (extents, range) in extents.iter().zip(ranges) {
        pack(*extents, &mut values[range.clone()]);
    }
    let values = Arc::new(SharedMemory::from(values));
    let packing = |(extents, range): (&_, &Range<usize>)| packing(*extents, values.clone(), range.start);
    extents.iter().zip(ranges).map(packing).map(PackedWeight).collect()
}

/// y = [residual +] x·Wᵀ. `x` [N, I] → [N, O]; `residual` [N, O]. Kernels add to `residual` in place, so y shares its memory,
/// and sum in `order`.
///
/// # Errors
/// Mismatched shapes or number formats, tensors that are not contiguous f32 (kernels also accept bf16), or a weight packed
/// for another device.
pub fn forward(x: &Tensor, w: &PackedWeight, residual: Option<&Tensor>, order: SumOrder) -> Result<Tensor> {
    let (n, i) = x.dims2()?;
    if i != w.inputs() {
        bail!("packed linear: x is [{n}, {i}], the weight takes {}", w.inputs());
    }
    match (&w.0, kernels::of(x.device())?) {
        (Packing::QuantisedRows(matrix), Some(kernels)) => matrix.product(&*kernels, x, residual, x.dtype()),
        (Packing::Rows(rows), Some(kernels)) => by_kernels(&*kernels, (x, rows), residual, (x.dtype(), order)),
        _ => on_host(x, w.outputs(), residual, |x, y, start| w.product_on_host(n, x, y, start)),
    }
}

/// y = x·Wᵀ with f32 output for every number format, for log-probabilities: bf16 would leave them two digits.
///
/// # Errors
/// As [`forward`].
pub fn forward_f32(x: &Tensor, w: &PackedWeight, order: SumOrder) -> Result<Tensor> {
    match (&w.0, kernels::of(x.device())?) {
        (Packing::Rows(rows), Some(kernels)) if x.dims2()?.1 == w.inputs() => {
            by_kernels(&*kernels, (x, rows), None, (DType::F32, order))
        }
        (Packing::QuantisedRows(matrix), Some(kernels)) => matrix.product(&*kernels, x, None, DType::F32),
        _ => forward(x, w, None, order),
    }
}

/// [residual +] x·Wᵀ in number format `dtype`: that of `x`, or f32 without a residual. The residual is overwritten.
fn by_kernels(
    kernels: &dyn Kernels,
    (x, w): (&Tensor, &Tensor),
    residual: Option<&Tensor>,
    (dtype, order): (DType, SumOrder),
) -> Result<Tensor> {
    let (y, accumulate) = match residual {
        Some(residual) if residual.dtype() != dtype => {
            bail!("packed linear: the residual is {:?}, x is {dtype:?}", residual.dtype())
        }
        Some(residual) => (residual.clone(), Accumulate::Yes),
        None => (kernels.empty(&[x.dim(0)?, w.dim(0)?], dtype)?, Accumulate::No),
    };
    matmul::launch_linear_into(kernels, (x, w), &y, (accumulate, order))?;
    Ok(y)
}

/// A product on the host, [N, `columns`].
fn on_host(
    x: &Tensor,
    columns: usize,
    residual: Option<&Tensor>,
    product: impl Fn(&[f32], &mut [f32], Start<'_>) -> Result<()>,
) -> Result<Tensor> {
    if kernels::of(x.device())?.is_some() {
        bail!("packed linear: the weight was packed for the CPU");
    }
    let rows = x.dims()[0];
    let mut y = pool::values(rows * columns);
    match residual {
        None => cpu::read(x, |x| product(x, &mut y, Start::Zero))?,
        Some(residual) => {
            if residual.dims() != [rows, columns] {
                bail!("packed linear: the residual is {:?}, the output [{rows}, {columns}]", residual.dims());
            }
            cpu::read(residual, |residual| cpu::read(x, |x| product(x, &mut y, Start::Of(residual))))?;
        }
    }
    cpu::tensor(y, (rows, columns))
}
