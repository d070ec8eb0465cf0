//! Writes keys and values into pages, and copies parts of pages.

use candle_core::{Result, Tensor, bail};

use super::plan::Way;
use super::{PageShape, Plan, check, device};
use crate::kernels;
use crate::ops::cpu;

/// Writes the keys and values of `qkv` [N, (H + 2·KV)·head size] into `keys` and `values` [pages, elements], in place.
///
/// # Errors
/// Shapes that do not match the plan, or tensors that are not contiguous f32 (kernels also accept bf16).
pub fn append(qkv: &Tensor, keys: &Tensor, values: &Tensor, plan: &Plan<'_>) -> Result<()> {
    check(qkv, keys, values, plan)?;
    let shape = plan.shape;
    let spans = match &plan.way {
        Way::Cpu { spans, .. } => spans,
        Way::Device(tables) => {
            let Some(kernels) = kernels::of(qkv.device())? else { bail!("paged attention: a plan for another device") };
            return device::append(&*kernels, qkv, (keys, values), tables, plan);
        }
    };
    let (dim, size) = (shape.heads.dim, shape.tokens);
    let (query, kv) = (shape.query_size(), shape.kv_size());
    cpu::read(qkv, |qkv| {
        cpu::update(keys, |keys| {
            cpu::update(values, |values| {
                for span in spans {
                    for row in span.rows.clone() {
                        let position = span.position + row - span.rows.start;
                        let page = span.pages[position / size] as usize * shape.elements();
                        let slot = position % size;
                        let row = &qkv[row * shape.joined() + query..(row + 1) * shape.joined()];
                        let columns = keys[page..page + shape.elements()].chunks_exact_mut(size);
                        for (column, key) in columns.zip(&row[..kv]) {
                            column[slot] = *key;
                        }
                        let heads = values[page..page + shape.elements()].chunks_exact_mut(size * dim);
                        for (head, value) in heads.zip(row[kv..].chunks_exact(dim)) {
                            head[slot * dim..(slot + 1) * dim].copy_from_slice(value);
                        }
                    }
                }
                Ok(())
            })
        })
    })
}

/// Copies the first `tokens` tokens of page `from` to page `to`, in place.
///
/// # Errors
/// A page out of range, more tokens than a page holds, or tensors that are not contiguous f32 (kernels also accept
/// bf16).
pub fn copy(keys: &Tensor, values: &Tensor, from: u32, to: u32, tokens: usize, shape: PageShape) -> Result<()> {
    let (count, elements) = keys.dims2()?;
    let (from, to, size, dim) = (from as usize, to as usize, shape.tokens, shape.heads.dim);
    if from >= count
        || to >= count
        || from == to
        || tokens > size
        || elements != shape.elements()
        || values.dims() != keys.dims()
    {
        bail!("paged attention: {tokens} tokens of page {from} to page {to} of {count} of {shape:?}");
    }
    if let Some(kernels) = kernels::of(keys.device())? {
        return device::copy(&*kernels, (keys, values), (from, to), tokens, shape);
    }
    /// Copies the first `count` elements of each column of a page.
    fn copy_columns(pages: &mut [f32], (from, to): (usize, usize), elements: usize, column: usize, count: usize) {
        let (low, high) = pages.split_at_mut(from.max(to) * elements);
        let (low, high) = (&mut low[from.min(to) * elements..][..elements], &mut high[..elements]);
        let (source, target) = if from < to { (low, high) } else { (high, low) };
        for (target, source) in target.chunks_exact_mut(column).zip(source.chunks_exact(column)) {
            target[..count].copy_from_slice(&source[..count]);
        }
    }
    cpu::update(keys, |keys| {
        copy_columns(keys, (from, to), elements, size, tokens);
        Ok(())
    })?;
    cpu::update(values, |values| {
        copy_columns(values, (from, to), elements, size * dim, tokens * dim);
        Ok(())
    })
}
