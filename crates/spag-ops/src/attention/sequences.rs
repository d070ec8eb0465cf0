//! The sequences of a packed batch, and the work lists of kernels.

use candle_core::{Device, Result, Tensor, bail};

use super::segments::{Segment, segments};
use crate::embedding::RowsOnDevice;
use crate::kernels;

/// Rows of a tile: the work of one thread block.
const TILE: u32 = 128;

/// The sequences of a packed batch, which may form trees. Created once per batch and shared by all layers.
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

/// All tiles of all sequences, [items, 5]: first row of the sequence, first row of the tile, end of the sequence, first row
/// with a query, and the offset from a query's row to its key's. Rows are those of keys, which are copied if there are
/// trees. Tiles with the most work come first, for load balance.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// For blocks that own queries: a tile reads the keys up to its end.
    pub(super) queries: Tensor,
    /// For blocks that own keys: a tile is read by the queries from its first row on.
    pub(super) keys: Tensor,
    /// The rows from which keys and values are copied; `None` without trees, since they are read in place.
    pub(super) copied: Option<RowsOnDevice>,
}

impl Sequences {
    /// `bounds` holds the first row of each sequence and, last, the number of rows. Sequences may be empty.
    ///
    /// # Errors
    /// Bounds that do not increase from 0, or out of memory.
    pub fn new(bounds: &[u32], device: &Device) -> Result<Self> {
        Self::tree(bounds, &vec![None; bounds.len().saturating_sub(1)], device)
    }

    /// [`Sequences::new`] with segments, each of which continues its parent: a row sees its ancestors' rows and the earlier rows
    /// of its segment. Segments are in depth-first order. Attention is bit-identical to unpacking each path into a sequence of
    /// its own.
    ///
    /// # Errors
    /// As [`Sequences::new`], or another order.
    pub fn tree(bounds: &[u32], parents: &[Option<u32>], device: &Device) -> Result<Self> {
        let segments = segments(bounds, parents)?;
        let work = match kernels::of(device)? {
            Some(_) => Some(Work::new(&segments, device)?),
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

    /// Number of copied ancestor rows.
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
    fn new(segments: &[Segment], device: &Device) -> Result<Self> {
        let in_place = segments.iter().all(|segment| segment.ancestors.is_empty());
        let (mut queries, mut keys, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for segment in segments.iter().filter(|segment| !segment.rows.is_empty()) {
            let begin = if in_place { segment.rows.start as u32 } else { rows.len() as u32 };
            rows.extend(segment.path().flatten().map(|row| row as u32));
            let (first_query, end) = (begin + segment.depth as u32, begin + segment.keys() as u32);
            let tile = |first| [begin, first, end, first_query, first_query - segment.rows.start as u32];
            queries.extend((first_query..end).step_by(TILE as usize).map(tile));
            keys.extend((begin..end).step_by(TILE as usize).map(tile));
        }
        let list = |tiles: &[[u32; 5]]| Tensor::from_slice(tiles.as_flattened(), (tiles.len(), 5), device);
        // Stable sorts: tiles with equal work stay in the order of their sequences, for locality.
        queries.sort_by_key(|[begin, first, end, ..]| std::cmp::Reverse((first + TILE).min(*end) - begin));
        keys.sort_by_key(|[_, first, end, first_query, _]| std::cmp::Reverse(end - first.max(first_query)));
        let copied = (!in_place).then(|| RowsOnDevice::new(&rows, device)).transpose()?;
        Ok(Self { queries: list(&queries)?, keys: list(&keys)?, copied })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_with_the_most_work_come_first() {
        let segments = segments(&[0, 0, 130, 130, 330], &[None; 4]).unwrap();
        let work = Work::new(&segments, &Device::Cpu).unwrap();
        let rows = |list: &Tensor| list.to_vec2::<u32>().unwrap();
        assert!(work.copied.is_none());
        // Keys read: 200, 130, 128 and 128. Queries that read them: 200, 130, 72 and 2.
        let of = |begin, first, end| [begin, first, end, begin, 0];
        assert_eq!(rows(&work.queries), [of(130, 258, 330), of(0, 128, 130), of(0, 0, 130), of(130, 130, 330)]);
        assert_eq!(rows(&work.keys), [of(130, 130, 330), of(0, 0, 130), of(130, 258, 330), of(0, 128, 130)]);
    }

    #[test]
    fn keys_of_trees_are_copied_and_queries_are_not() {
        // 100 rows, and two segments of 40 and 50 that follow them.
        let segments = segments(&[0, 100, 140, 190], &[None, Some(0), Some(0)]).unwrap();
        let work = Work::new(&segments, &Device::Cpu).unwrap();
        let rows = |list: &Tensor| list.to_vec2::<u32>().unwrap();
        let [root, first, second] = [[0, 0, 100, 0, 0], [100, 200, 240, 200, 100], [240, 340, 390, 340, 200]];
        assert_eq!(rows(&work.queries), [second, first, root]);
        let begin = |[begin, _, end, queries, shift]: [u32; 5], at| [begin, begin + at, end, queries, shift];
        // Queries that read them: 100, 50, 40, 22 and 12.
        let keys = [root, begin(second, 0), begin(first, 0), begin(second, 128), begin(first, 128)];
        assert_eq!(rows(&work.keys), keys);
        assert!(work.copied.is_some());
    }

    #[test]
    fn bounds_must_increase_from_zero() {
        for bounds in [&[][..], &[1, 2], &[0, 3, 2]] {
            assert!(Sequences::new(bounds, &Device::Cpu).is_err(), "{bounds:?}");
        }
        assert_eq!(Sequences::new(&[0], &Device::Cpu).unwrap().rows(), 0);
    }
}
