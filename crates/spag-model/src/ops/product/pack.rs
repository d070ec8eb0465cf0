//! Copies of matrix parts in the order in which the tiles read them. AVX-512 machines only.

use std::arch::x86_64::*;
use std::cell::Cell;

use super::tile::ROWS;

/// Floats of a register and of a cache line.
pub(super) const LANES: usize = 16;

/// A cache line, so that buffers begin at one and no load crosses two.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(#[expect(dead_code, reason = "read through pointers")] [f32; LANES]);

/// A buffer of this thread, given back when it is dropped: products come by the thousand, and fresh memory costs a
/// page fault every 4 KiB.
pub(super) struct Buffer {
    lines: Vec<Line>,
    home: &'static std::thread::LocalKey<Cell<Vec<Line>>>,
}

thread_local! {
    static SHARED: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    static OWN: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

impl Buffer {
    /// For what the calling thread packs for all threads.
    pub(super) fn shared(floats: usize) -> Self {
        Self::of(&SHARED, floats)
    }

    /// For what one task packs for itself.
    pub(super) fn own(floats: usize) -> Self {
        Self::of(&OWN, floats)
    }

    /// Taken out of its place, so that a task stolen meanwhile finds an empty place and not a borrowed one.
    fn of(home: &'static std::thread::LocalKey<Cell<Vec<Line>>>, floats: usize) -> Self {
        let mut lines = home.take();
        let count = floats.div_ceil(LANES);
        if lines.len() < count {
            lines.resize(count, Line([0.0; LANES]));
        }
        Self { lines, home }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut f32 {
        self.lines.as_mut_ptr().cast()
    }

    pub(super) fn as_slice(&self) -> &[f32] {
        // SAFETY: a line is 16 floats without padding, and all of them are initialised.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.lines.len() * LANES) }
    }

    pub(super) fn as_ptr(&self) -> *const f32 {
        self.lines.as_ptr().cast()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let other = self.home.take();
        self.home.set(if other.len() > lines.len() { other } else { lines });
    }
}

/// `panel[k, width]` = the transpose of the `n` ≤ width rows of a row-major matrix at `from`; columns beyond are zero.
///
/// # Safety
/// The elements must be readable and the panel writable.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn columns((k, n, width): (usize, usize, usize), from: *const f32, stride: usize, panel: *mut f32) {
    for column in (0..width).step_by(LANES) {
        let count = n.saturating_sub(column).min(LANES);
        for step in (0..k).step_by(LANES) {
            let steps = (k - step).min(LANES);
            let mask = mask(steps);
            let mut block = [_mm512_setzero_ps(); LANES];
            // SAFETY: `count` rows and `steps` columns are within the extents.
            unsafe {
                for (i, row) in block.iter_mut().enumerate().take(count) {
                    *row = _mm512_maskz_loadu_ps(mask, from.add((column + i) * stride + step));
                }
                transpose(&mut block);
                for (i, row) in block.iter().enumerate().take(steps) {
                    _mm512_storeu_ps(panel.add((step + i) * width + column), *row);
                }
            }
        }
    }
}

/// Tiles of [`ROWS`] columns of a row-major [k, m] matrix, each stored as `[k, ROWS]`, one after another.
///
/// # Safety
/// The elements must be readable and the tiles, a whole number of them and one register more, writable.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn left((m, k): (usize, usize), from: *const f32, stride: usize, tiles: *mut f32) {
    const TILE: __mmask16 = (1 << ROWS) - 1;
    let full = m / ROWS;
    for step in 0..k {
        // SAFETY: the mask reads one tile's columns, all of them below m.
        unsafe {
            let row = from.add(step * stride);
            for tile in 0..full {
                let value = _mm512_maskz_loadu_ps(TILE, row.add(tile * ROWS));
                _mm512_mask_storeu_ps(tiles.add((tile * k + step) * ROWS), TILE, value);
            }
            let rest = m - full * ROWS;
            if rest > 0 {
                let value = _mm512_maskz_loadu_ps(mask(rest), row.add(full * ROWS));
                _mm512_mask_storeu_ps(tiles.add((full * k + step) * ROWS), TILE, value);
            }
        }
    }
}

/// A mask of the first `count` lanes.
fn mask(count: usize) -> __mmask16 {
    if count >= LANES { u16::MAX } else { (1 << count) - 1 }
}

/// Transposes 16 × 16 floats: pairs, quadruples, then the 128-bit lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: &mut [__m512; LANES]) {
    let mut pairs = [_mm512_setzero_ps(); LANES];
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    let mut quads = [_mm512_setzero_ps(); LANES];
    for i in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| _mm512_castps_pd(pairs[4 * i + j]));
        quads[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        quads[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        quads[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        quads[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for i in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| quads[4 * j + i]);
        let (ab_even, ab_odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let (cd_even, cd_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
        rows[i] = _mm512_shuffle_f32x4::<0x88>(ab_even, cd_even);
        rows[i + 8] = _mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even);
        rows[i + 4] = _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd);
        rows[i + 12] = _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd);
    }
}
