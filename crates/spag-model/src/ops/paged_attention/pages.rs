//! Writing into pages: new tokens, and the beginning of one page into another.

use candle_core::{Result, Tensor, bail};

use super::{PageShape, Span, check};
use crate::ops::cpu;

/// Writes the keys and values of `qkv` [N, (H + 2·KV)·head size] to their places in `keys` and `values`
/// [pages, elements], in place.
///
/// # Errors
/// A place outside the pages, shapes that do not fit, or tensors that are not contiguous f32.
pub fn append(qkv: &Tensor, keys: &Tensor, values: &Tensor, spans: &[Span<'_>], shape: PageShape) -> Result<()> {
    check(qkv, keys, values, spans, shape)?;
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
/// A page that is not there, more tokens than a page holds, or tensors that are not contiguous f32.
pub fn copy(keys: &Tensor, values: &Tensor, from: u32, to: u32, tokens: usize, shape: PageShape) -> Result<()> {
    let (count, elements) = keys.dims2()?;
    let (from, to, size, dim) = (from as usize, to as usize, shape.tokens, shape.heads.dim);
    if from >= count || to >= count || from == to || tokens > size || elements != shape.elements() {
        bail!("paged attention: {tokens} tokens of page {from} to page {to} of {count} of {shape:?}");
    }
    let both = |pages: &mut [f32]| -> Vec<f32> { pages[from * elements..(from + 1) * elements].to_vec() };
    cpu::update(keys, |keys| {
        let source = both(keys);
        let target = &mut keys[to * elements..(to + 1) * elements];
        for (target, source) in target.chunks_exact_mut(size).zip(source.chunks_exact(size)) {
            target[..tokens].copy_from_slice(&source[..tokens]);
        }
        Ok(())
    })?;
    cpu::update(values, |values| {
        let source = both(values);
        let target = &mut values[to * elements..(to + 1) * elements];
        for (target, source) in target.chunks_exact_mut(size * dim).zip(source.chunks_exact(size * dim)) {
            target[..tokens * dim].copy_from_slice(&source[..tokens * dim]);
        }
        Ok(())
    })
}
