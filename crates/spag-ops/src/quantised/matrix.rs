//! Quantised matrices on a CPU.

use candle_core::{Result, bail};
use rayon::prelude::*;

use super::format::{self, BLOCK, BlockFormat, Format, with_format};
use super::panel::{Line, PANEL, Panel};
use super::quantise::quantise;
use super::scales::{AllScales, Scales};
use super::span::Span;
use crate::product::{Element, Values};
use crate::simd;

/// Quantises the span that starts at weight `at`.
pub(super) fn quantised_span(format: BlockFormat, weights: Values<'_>, at: usize) -> Span {
    let size = format.span();
    let mut widened = [0f32; format::SUPERBLOCK];
    let to = &mut widened[..size];
    match weights.range(at..at + size) {
        Values::F32(weights) => to.copy_from_slice(weights),
        Values::Bf16(weights) => to.iter_mut().zip(weights).for_each(|(to, from)| *to = from.widen()),
    }
    simd::vectorized(
        #[inline(always)]
        || quantise(format, to),
    )
}

/// A quantised matrix [n, k] for products on a CPU.
pub(crate) struct QuantisedMatrix {
    format: BlockFormat,
    n: usize,
    k: usize,
    /// The lines of all blocks of the first panel, then those of the next. The last panel is padded with zero rows.
    lines: Vec<Line>,
    /// The scales of the same spans.
    scales: AllScales,
}

impl QuantisedMatrix {
    /// Quantises row-major weights [n, k].
    ///
    /// # Errors
    /// A k that the format does not divide, fewer weights than n·k, or a weight that is not finite or too large for an f16
    /// scale.
    pub(crate) fn new(format: BlockFormat, (n, k): (usize, usize), weights: Values<'_>) -> Result<Self> {
        if weights.len() < n * k {
            bail!("{format}: {} weights for [{n}, {k}]", weights.len());
        }
        let span = |row: usize, index: usize| quantised_span(format, weights, row * k + index * format.span());
        with_format!(format, F => Self::pack::<F>((n, k), span))
    }

    /// A matrix in ggml's file format, row by row.
    ///
    /// # Errors
    /// A k that the format does not divide, bytes of a wrong size, or a scale that is not finite.
    pub(crate) fn stored(format: BlockFormat, (n, k): (usize, usize), bytes: &[u8]) -> Result<Self> {
        let (spans, size) = (k / format.span(), format.stored_bytes());
        if bytes.len() != n * spans * size {
            bail!("{format}: {} bytes for [{n}, {k}]", bytes.len());
        }
        let span = |row: usize, index: usize| Span::stored(format, &bytes[(row * spans + index) * size..][..size]);
        with_format!(format, F => Self::pack::<F>((n, k), span))
    }

    /// Packs the spans of rows.
    fn pack<F: Format>((n, k): (usize, usize), span: impl Fn(usize, usize) -> Span + Sync) -> Result<Self> {
        let format = F::NAME;
        if k == 0 || !k.is_multiple_of(format.span()) {
            bail!("{format}: the input size {k} is no multiple of {}", format.span());
        }
        let spans = k / format.span();
        let per_span = F::BITS * F::SPAN;
        let count = n.div_ceil(PANEL) * spans;
        let (mut lines, mut scales) = (vec![Line::ZERO; count * per_span], vec![F::Scales::ZERO; count]);
        let panels = lines.par_chunks_mut(spans * per_span).zip(scales.par_chunks_mut(spans));
        panels.enumerate().try_for_each(|(panel, (lines, scales))| {
            let first = panel * PANEL;
            for row in first..n.min(first + PANEL) {
                let places = lines.chunks_exact_mut(per_span).zip(scales.iter_mut());
                for (index, (lines, scales)) in places.enumerate() {
                    let span = span(row, index);
                    if !span.is_finite() {
                        bail!("{format}: row {row} has a weight that is not finite or too large");
                    }
                    scales.set(row - first, &span);
                    Panel::<F>::write(&span, row - first, lines);
                }
            }
            Ok(())
        })?;
        Ok(Self { format, n, k, lines, scales: F::Scales::all(scales) })
    }

    /// Bytes of a matrix [n, k] in a format.
    pub(crate) fn bytes(format: BlockFormat, (n, k): (usize, usize)) -> u64 {
        let panels = n.div_ceil(PANEL) as u64;
        let of_span =
            with_format!(format, F => F::BITS * F::SPAN * size_of::<Line>() + size_of::<<F as Format>::Scales>());
        panels.saturating_mul(k.div_ceil(format.span()) as u64).saturating_mul(of_span as u64)
    }

    /// Number format.
    pub(crate) fn format(&self) -> BlockFormat {
        self.format
    }

    /// Input size.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// Output size.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Writes row `index`, dequantised.
    ///
    /// # Panics
    /// If the row is out of range, or `row` has the wrong length.
    pub(crate) fn unpack_row(&self, index: usize, row: &mut [f32]) {
        assert!(index < self.n && row.len() == self.k, "quantised: row out of range");
        with_format!(self.format, F => simd::vectorized(
            #[inline(always)]
            || self.unpack::<F>(index, row),
        ))
    }

    #[inline(always)]
    fn unpack<F: Format>(&self, index: usize, row: &mut [f32]) {
        let lane = index % PANEL;
        let spans = self.panel::<F>(index / PANEL).spans();
        for (values, (scales, lines)) in row.chunks_exact_mut(BLOCK * F::SPAN).zip(spans) {
            let blocks = values.chunks_exact_mut(BLOCK).zip(lines.chunks_exact(F::BITS));
            for (block, (values, lines)) in blocks.enumerate() {
                let codes = Panel::<F>::codes(lines, lane);
                let minimum = scales.minimum_of(lane, block).unwrap_or(0.0);
                let parts = values.chunks_exact_mut(BLOCK / F::PARTS).zip(codes.chunks_exact(BLOCK / F::PARTS));
                for (part, (values, codes)) in parts.enumerate() {
                    let scale = scales.scale_of(lane, block, part);
                    for (value, code) in values.iter_mut().zip(codes) {
                        *value = scale * (i32::from(*code) - F::OFFSET) as f32 + minimum;
                    }
                }
            }
        }
    }

    /// A panel of a matrix of this format.
    pub(super) fn panel<F: Format>(&self, index: usize) -> Panel<'_, F> {
        let spans = self.k / (BLOCK * F::SPAN);
        let (range, per_span) = (index * spans..(index + 1) * spans, F::BITS * F::SPAN);
        let lines = &self.lines[range.start * per_span..range.end * per_span];
        Panel { lines, scales: &F::Scales::of(&self.scales)[range] }
    }
}
