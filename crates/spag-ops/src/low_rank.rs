//! LoRA adapters in generation: low-rank products, each added to some rows of a linear layer's output.
//!
//! A row's result depends only on that row and its adapter, and is bit-identical to the training pass, which
//! computes y + (s·x·Aᵀ)·Bᵀ for one adapter with [`matmul`](super::matmul).

use std::ops::Range;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::cpu;
use super::packed_linear::{self, PackedWeight};
use super::product::Start;
use crate::kernels::{self, SumOrder};

/// The matrices of one linear layer: s·B·A with A [r, I] and B [W, r].
pub struct LowRank {
    /// A.
    pub a: Tensor,
    /// B.
    pub b: Tensor,
    /// s.
    pub scale: f64,
    /// The W columns of the output that it changes: all, or those of one of several stacked layers.
    pub columns: Range<usize>,
}

/// Packed matrices of one adapter, for a linear layer or for several with the same input.
pub struct PackedLowRank {
    /// The matrices A, stacked: [Σr, I].
    a: PackedWeight,
    parts: Vec<Part>,
    /// The end of the last columns.
    width: usize,
}

struct Part {
    /// Columns of x·Aᵀ.
    reduced: Range<usize>,
    b: PackedWeight,
    scale: f64,
    /// Columns of the output.
    columns: Range<usize>,
}

/// Rows of a batch with the same adapter.
pub struct AdaptedRows<'a> {
    /// The rows.
    pub rows: Range<usize>,
    /// The adapter's matrices.
    pub weight: &'a PackedLowRank,
}

impl PackedLowRank {
    /// Packs matrices, f32 or bf16, of the same format and I.
    ///
    /// # Errors
    /// No matrices, mismatched shapes, or tensors that are not contiguous.
    pub fn new(layers: &[LowRank]) -> Result<Self> {
        let mut ranks = 0;
        let parts = layers.iter().map(|LowRank { a, b, scale, columns }| {
            let (rank, width) = (a.dim(0)?, b.dim(0)?);
            if b.dim(1)? != rank || width != columns.len() {
                bail!("low rank: A is {:?}, B {:?}, for columns {columns:?}", a.dims(), b.dims());
            }
            ranks += rank;
            let (reduced, columns) = (ranks - rank..ranks, columns.clone());
            Ok(Part { reduced, b: PackedWeight::new(b)?, scale: *scale, columns })
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let a: Vec<&Tensor> = layers.iter().map(|layer| &layer.a).collect();
        let width = parts.iter().map(|part| part.columns.end).max().unwrap_or(0);
        Ok(Self { a: PackedWeight::new(&Tensor::cat(&a, 0)?)?, parts, width })
    }

    /// Adds the products of rows `x` [m, I] to `y` [m, `outputs`].
    fn add_on_host(&self, m: usize, x: &[f32], y: &mut [f32], outputs: usize) -> Result<()> {
        let ranks = self.a.outputs();
        let mut all = vec![0f32; m * ranks];
        self.a.product_on_host(m, x, &mut all, Start::Zero)?;
        let (mut reduced, mut sums) = (Vec::new(), Vec::new());
        for Part { reduced: at, b, scale, columns } in &self.parts {
            let scale = *scale as f32;
            reduced.clear();
            // Scaled as in the training pass, which produces no negative zeros.
            reduced.extend(all.chunks_exact(ranks).flat_map(|row| &row[at.clone()]).map(|value| value * scale + 0.0));
            if columns.len() == outputs {
                b.product_on_host(m, &reduced, y, Start::Output)?;
                continue;
            }
            sums.clear();
            sums.extend(y.chunks_exact(outputs).flat_map(|row| &row[columns.clone()]));
            b.product_on_host(m, &reduced, &mut sums, Start::Output)?;
            for (row, sums) in y.chunks_exact_mut(outputs).zip(sums.chunks_exact(columns.len())) {
                row[columns.clone()].copy_from_slice(sums);
            }
        }
        Ok(())
    }

    /// [`PackedLowRank::add_on_host`] with kernels.
    fn add_by_kernels(&self, x: &Tensor, y: &Tensor) -> Result<()> {
        let all = packed_linear::forward(x, &self.a, None, SumOrder::Fixed)?;
        for Part { reduced, b, scale, columns } in &self.parts {
            let reduced = (all.narrow(1, reduced.start, reduced.len())?.contiguous()? * *scale)?;
            let base = y.narrow(1, columns.start, columns.len())?.force_contiguous()?;
            y.slice_set(&packed_linear::forward(&reduced, b, Some(&base), SumOrder::Fixed)?, 1, columns.start)?;
        }
        Ok(())
    }
}

/// Adds s·(x·Aᵀ)·Bᵀ of each group to its rows of `y`, in place. `x` [N, I], `y` [N, O]. Other rows are unchanged.
///
/// # Errors
/// Groups that overlap, are not in the order of their rows, or leave the batch; mismatched shapes; tensors that are not
/// contiguous f32 (kernels also accept bf16).
pub fn add(x: &Tensor, y: &Tensor, groups: &[AdaptedRows<'_>]) -> Result<()> {
    let ((n, inputs), (rows, outputs)) = (x.dims2()?, y.dims2()?);
    let mut end = 0;
    for AdaptedRows { rows: group, weight } in groups {
        let is_inside = end <= group.start && group.start <= group.end && group.end <= n;
        if !is_inside || rows != n || weight.a.inputs() != inputs || weight.width > outputs {
            bail!("low rank: x is {:?}, y {:?}, rows {group:?} after {end}", x.dims(), y.dims());
        }
        end = group.end;
    }
    if kernels::of(x.device())?.is_some() {
        return groups.iter().try_for_each(|AdaptedRows { rows, weight }| {
            let of = |tensor: &Tensor| tensor.narrow(0, rows.start, rows.len());
            weight.add_by_kernels(&of(x)?, &of(y)?)
        });
    }
    cpu::read(x, |x| {
        cpu::update(y, |y| {
            let (mut tasks, mut rest, mut at) = (Vec::with_capacity(groups.len()), y, 0);
            for AdaptedRows { rows, weight } in groups {
                let (before, after) = rest.split_at_mut((rows.end - at) * outputs);
                tasks.push((weight, rows, &mut before[(rows.start - at) * outputs..]));
                (rest, at) = (after, rows.end);
            }
            tasks.into_par_iter().with_max_len(1).try_for_each(|(weight, rows, y)| {
                weight.add_on_host(rows.len(), &x[rows.start * inputs..rows.end * inputs], y, outputs)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;
    use crate::cast::converted;
    use crate::matmul;

    fn matrix(rows: usize, columns: usize, seed: usize) -> Tensor {
        let value = |i: usize| ((i * 2654435761 + seed * 40503) % 10007) as f32 / 10007.0 - 0.5;
        Tensor::from_vec((0..rows * columns).map(value).collect(), (rows, columns), &Device::Cpu).unwrap()
    }

    /// Every row is bit-identical to the training pass, whatever its group: ranks below and above a chain, odd ranks, one row and
    /// many, all columns and some.
    #[test]
    fn rows_have_the_bits_of_the_product_of_their_adapter_alone() {
        let (inputs, outputs, n) = (72, 200, 37);
        for dtype in [DType::F32, DType::BF16] {
            let with = |ranks: [usize; 2], columns: [Range<usize>; 2], seed| {
                let layers = ranks.into_iter().zip(columns).enumerate().map(|(i, (rank, columns))| LowRank {
                    a: converted(&matrix(rank, inputs, seed + i), dtype).unwrap(),
                    b: converted(&matrix(columns.len(), rank, seed + i + 7), dtype).unwrap(),
                    scale: 1.7 - i as f64,
                    columns,
                });
                layers.collect::<Vec<_>>()
            };
            let adapters = [
                with([3, 16], [0..outputs, 64..131], 1),
                with([300, 1], [5..8, 0..outputs], 20),
                with([8, 7], [0..100, 100..200], 40),
            ];
            let packed: Vec<PackedLowRank> =
                adapters.iter().map(|layers| PackedLowRank::new(layers).unwrap()).collect();
            let (x, start) = (matrix(n, inputs, 90), matrix(n, outputs, 91));
            let y = start.copy().unwrap();
            let groups = [(0, 0..1), (1, 1..4), (0, 6..22), (2, 22..n)];
            let rows =
                |(which, rows): &(usize, Range<usize>)| AdaptedRows { rows: rows.clone(), weight: &packed[*which] };
            add(&x, &y, &groups.iter().map(rows).collect::<Vec<_>>()).unwrap();
            let found = y.to_vec2::<f32>().unwrap();
            for (row, found) in found.iter().enumerate() {
                let (x, start) = (x.narrow(0, row, 1).unwrap(), start.narrow(0, row, 1).unwrap());
                let wanted = start.copy().unwrap();
                let own = groups.iter().find(|(_, rows)| rows.contains(&row));
                for layer in own.map(|(which, _)| adapters[*which].as_slice()).unwrap_or_default() {
                    let (first, width) = (layer.columns.start, layer.columns.len());
                    let base = wanted.narrow(1, first, width).unwrap().contiguous().unwrap();
                    let reduced = (matmul::linear(&x, &layer.a).unwrap() * layer.scale).unwrap();
                    let sum = matmul::linear_add(&base, &reduced, &layer.b).unwrap();
                    wanted.slice_set(&sum, 1, first).unwrap();
                }
                assert_eq!(own.is_some(), wanted.to_vec2::<f32>().unwrap() != start.to_vec2::<f32>().unwrap());
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(found), bits(&wanted.to_vec2::<f32>().unwrap()[0]), "{dtype:?}, row {row}");
            }
        }
    }

    #[test]
    fn groups_and_shapes_that_do_not_fit_are_refused() {
        let layer = |columns: Range<usize>| LowRank { a: matrix(2, 8, 1), b: matrix(4, 2, 2), scale: 1.0, columns };
        assert!(PackedLowRank::new(&[layer(0..3)]).is_err());
        assert!(PackedLowRank::new(&[]).is_err());
        let packed = PackedLowRank::new(&[layer(2..6)]).unwrap();
        let run = |width: usize, outputs: usize, groups: &[Range<usize>]| {
            let rows = |rows: &Range<usize>| AdaptedRows { rows: rows.clone(), weight: &packed };
            add(&matrix(5, width, 3), &matrix(5, outputs, 4), &groups.iter().map(rows).collect::<Vec<_>>())
        };
        run(8, 6, &[0..2, 3..5]).unwrap();
        assert!(run(8, 5, &[0..2]).is_err() && run(7, 6, &[0..2]).is_err() && run(8, 6, &[0..6]).is_err());
        assert!(run(8, 6, &[2..3, 0..1]).is_err() && run(8, 6, &[0..2, 1..3]).is_err());
    }
}
