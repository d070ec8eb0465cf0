//! Where the sequences of a batch begin, and the order in which a device takes them.

use candle_core::{Device, Result, Tensor, bail};

use crate::kernels;

/// Rows of a tile: what a block of a kernel works on.
const TILE: u32 = 128;

/// The sequences of a packed batch, for attention: made once and passed to every layer.
///
/// On a device that runs kernels it also holds their work lists, uploaded once.
///
/// ```
/// use candle_core::Device;
/// use spag_model::ops::attention::Sequences;
///
/// # fn main() -> candle_core::Result<()> {
/// // Three sequences of 4, 0 and 5 tokens.
/// let sequences = Sequences::new(&[0, 4, 4, 9], &Device::Cpu)?;
/// assert_eq!(sequences.bounds(), [0, 4, 4, 9]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sequences {
    bounds: Vec<u32>,
    work: Option<Work>,
}

/// All tiles of all sequences, [items, 3]: the sequence's first row, the tile's first row, one past the sequence's last.
/// Those with most to do come first, so that a device's multiprocessors end together.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Number of tiles.
    pub(super) items: usize,
    /// For blocks whose rows are queries: a tile sees the keys before its end.
    pub(super) queries: Tensor,
    /// For blocks whose rows are keys: a tile is seen by the queries from its first row on.
    pub(super) keys: Tensor,
}

impl Sequences {
    /// `bounds` are the starts of the sequences and, last, the number of rows; sequences may be empty.
    ///
    /// # Errors
    /// Bounds that do not rise from 0, or a device without room.
    pub fn new(bounds: &[u32], device: &Device) -> Result<Self> {
        if bounds.first() != Some(&0) || !bounds.is_sorted() {
            bail!("attention: sequence bounds must rise from 0");
        }
        let work = match kernels::of(device)? {
            Some(_) => Some(Work::new(bounds, device)?),
            None => None,
        };
        Ok(Self { bounds: bounds.to_vec(), work })
    }

    /// The starts of the sequences and, last, the number of rows.
    pub fn bounds(&self) -> &[u32] {
        &self.bounds
    }

    /// Number of rows of all sequences.
    pub fn rows(&self) -> usize {
        self.bounds.last().map_or(0, |end| *end as usize)
    }

    /// The work lists of the device.
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
        // Stable sorts: tiles with as much to do stay in the order of their sequences, whose rows lie close.
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
    fn tiles_with_most_to_do_come_first() {
        let work = Work::new(&[0, 0, 130, 130, 330], &Device::Cpu).unwrap();
        let rows = |list: &Tensor| list.to_vec2::<u32>().unwrap();
        assert_eq!(work.items, 4);
        // 200, 130, 128 and 128 keys are seen; 200, 130, 72 and 2 queries see them.
        assert_eq!(rows(&work.queries), [[130, 258, 330], [0, 128, 130], [0, 0, 130], [130, 130, 330]]);
        assert_eq!(rows(&work.keys), [[130, 130, 330], [0, 0, 130], [130, 258, 330], [0, 128, 130]]);
    }

    #[test]
    fn bounds_rise_from_zero() {
        for bounds in [&[][..], &[1, 2], &[0, 3, 2]] {
            assert!(Sequences::new(bounds, &Device::Cpu).is_err(), "{bounds:?}");
        }
        assert_eq!(Sequences::new(&[0], &Device::Cpu).unwrap().rows(), 0);
    }
}
