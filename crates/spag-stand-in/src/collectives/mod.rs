//! Collectives between processes on one machine: all ranks send their input to rank 0, which compares the calls,
//! computes and replies.

mod group;
mod sum;

use std::io;

pub(crate) use group::{Group, ID_BYTES, new_id};
pub(crate) use sum::Format;

/// A collective with the arguments that must match on all ranks. Counts are elements, as in NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    AllReduce { count: usize, format: Format },
    ReduceScatter { count: usize, format: Format },
    AllGather { count: usize, format: Format },
    Broadcast { count: usize, format: Format, root: usize },
}

impl Collective {
    /// Its encoding, which ranks compare.
    fn words(self) -> [u64; 4] {
        let word =
            |kind: u64, count: usize, format: Format, root: usize| [kind, count as u64, format as u64, root as u64];
        match self {
            Self::AllReduce { count, format } => word(0, count, format, 0),
            Self::ReduceScatter { count, format } => word(1, count, format, 0),
            Self::AllGather { count, format } => word(2, count, format, 0),
            Self::Broadcast { count, format, root } => word(3, count, format, root),
        }
    }

    /// Whether a group of this size supports it.
    pub(crate) fn fits(self, size: usize) -> bool {
        !matches!(self, Self::Broadcast { root, .. } if root >= size)
    }

    /// Input and output bytes of each rank.
    pub(crate) fn bytes(self, size: usize) -> (usize, usize) {
        match self {
            Self::AllReduce { count, format } | Self::Broadcast { count, format, .. } => {
                (count * format.size(), count * format.size())
            }
            Self::ReduceScatter { count, format } => (size * count * format.size(), count * format.size()),
            Self::AllGather { count, format } => (count * format.size(), size * count * format.size()),
        }
    }

    /// The outputs of all ranks from their inputs.
    fn results(self, given: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
        let size = given.len();
        Ok(match self {
            Self::AllReduce { format, .. } => vec![format.sum(given)?; size],
            Self::ReduceScatter { format, count } => {
                let all = format.sum(given)?;
                all.chunks(count * format.size()).map(<[u8]>::to_vec).collect()
            }
            Self::AllGather { .. } => vec![given.concat(); size],
            Self::Broadcast { root, .. } => vec![given[root].clone(); size],
        })
    }
}
