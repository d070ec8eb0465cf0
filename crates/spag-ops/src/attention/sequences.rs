//! The sequences of a packed batch, and the work lists of kernels.

use candle_core::{Device, Result, Tensor, bail};

use super::segments::{Segment, segments};
use crate::kernels;

/// Rows of a tile: the work of one thread block.
const TILE: u32 = 128;

/// The sequences of a packed batch, which may form trees. Created once per batch and used by every layer.
///
/// For kernels, it also holds their work lists on the device.
///
/// ```
/// use candle_core::Device;
/// use spag_ops::attention::Sequences;
///
/// # fn main() -> candle_core::Result<()> {
/// // Three sequences of 4, 0 and 5 tokens.
/// let sequences = Sequences::new(&[0, 4, 4, 9], &Device::Cpu)?;
/// assert_eq!(sequences.bounds(), [0, 4, 4, 9]);
///
/// // Two sequences of 5 and 6 tokens, of which the first 4 are the same rows.
/// let tree = Sequences::tree(&[0, 4, 5, 7], &[None, Some(0), Some(0)], &Device::Cpu)?;
/// assert_eq!(tree.rows(), 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sequences {
    bounds: Vec<u32>,
    segments: Vec<Segment>,
    work: Option<Work>,
}

/// All tiles of all sequences, [items, 3]: first row of the sequence, first row of the tile, end of the sequence. Tiles
/// with the most work come first, for load balance.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Number of tiles.
    pub(super) items: usize,
    /// For blocks that own queries: a tile reads the keys up to its end.
    pub(super) queries: Tensor,
    /// For blocks that own keys: a tile is read by the queries from its first row on.
    pub(super) keys: Tensor,
}

impl Sequences {
    /// `bounds` holds the first row of each sequence and, last, the number of rows. Sequences may be empty.
    ///
    /// # Errors
    /// Bounds that do not increase from 0, or no memory.
    pub fn new(bounds: &[u32], device: &Device) -> Result<Self> {
        Self::tree(bounds, &vec![None; bounds.len().saturating_sub(1)], device)
    }

    /// As [`Sequences::new`] with segments, each of which continues its parent: a row sees the rows of its ancestors, and those
    /// before it in its segment. Segments come in depth-first order. Attention gives each row the bits that it has in a sequence
    /// of its own.
    ///
    /// # Errors
    /// As [`Sequences::new`], another order, or parents on a device with kernels, which compute whole sequences.
    pub fn tree(bounds: &[u32], parents: &[Option<u32>], device: &Device) -> Result<Self> {
        let segments = segments(bounds, parents)?;
        let work = match kernels::of(device)? {
            Some(_) if parents.iter().any(Option::is_some) => {
                bail!("attention: kernels take sequences without common rows")
            }
            Some(_) => Some(Work::new(bounds, device)?),
            None => None,
        };
        Ok(Self { bounds: bounds.to_vec(), segments, work })
    }

    /// The first row of each sequence or segment and, last, the number of rows.
    pub fn bounds(&self) -> &[u32] {
        &self.bounds
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.bounds.last().map_or(0, |end| *end as usize)
    }

    /// All segments in the order of their rows.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Number of the copies of ancestors' rows.
    pub(super) fn copies(&self) -> usize {
        self.segments.last().map_or(0, |last| last.copies + last.depth)
    }

    /// The device's work lists.
    pub(super) fn work(&self) -> Result<&Work> {
        match &self.work {
            Some(work) => Ok(work),
            None => bail!("attention: the sequences were made for a device without kernels"),
        }
    }
}

impl Work {
    fn new(bounds: &[u32], device: &Device) -> Result<Self> {
        let mut tiles: Vec<[u32; 3]> = bounds
            .windows(2)
            .flat_map(|w| (w[0]..w[1]).step_by(TILE as usize).map(move |first| [w[0], first, w[1]]))
            .collect();
        let items = tiles.len();
        let list = |tiles: &[[u32; 3]]| Tensor::from_slice(tiles.as_flattened(), (items, 3), device);
        // Stable sorts: tiles with equal work stay in the order of their sequences, for locality.
        tiles.sort_by_key(|[begin, first, end]| std::cmp::Reverse((first + TILE).min(*end) - begin));
        let queries = list(&tiles)?;
        tiles.sort_by_key(|[_, first, end]| std::cmp::Reverse(end - first));
        Ok(Self { items, queries, keys: list(&tiles)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_with_the_most_work_come_first() {
        let work = Work::new(&[0, 0, 130, 130, 330], &Device::Cpu).unwrap();
        let rows = |list: &Tensor| list.to_vec2::<u32>().unwrap();
        assert_eq!(work.items, 4);
        // Keys read: 200, 130, 128 and 128. Queries that read them: 200, 130, 72 and 2.
        assert_eq!(rows(&work.queries), [[130, 258, 330], [0, 128, 130], [0, 0, 130], [130, 130, 330]]);
        assert_eq!(rows(&work.keys), [[130, 130, 330], [0, 0, 130], [130, 258, 330], [0, 128, 130]]);
    }

    #[test]
    fn bounds_must_increase_from_zero() {
        for bounds in [&[][..], &[1, 2], &[0, 3, 2]] {
            assert!(Sequences::new(bounds, &Device::Cpu).is_err(), "{bounds:?}");
        }
        assert_eq!(Sequences::new(&[0], &Device::Cpu).unwrap().rows(), 0);
    }
}
