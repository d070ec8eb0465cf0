//! How a product's output is cut into parts for the threads.

/// Parts for each thread, so that one that comes late finds less to do.
pub(super) const PARTS: usize = 2;

/// The parts down and across whose largest is smallest; of equals the one with more parts across, which copies least.
pub(super) fn grid(tiles: usize, panels: usize, parts: usize) -> (usize, usize) {
    (1..=parts)
        .map(|down| (down, parts.div_ceil(down).min(panels.max(1))))
        .min_by_key(|(down, across)| (tiles.div_ceil(*down) * panels.div_ceil(*across), *down))
        .unwrap_or((1, 1))
}
