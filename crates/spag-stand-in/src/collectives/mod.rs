//! Collectives between processes on one machine: all send their part to rank 0, which compares, computes and answers.

mod group;
mod sum;

use std::io;

pub(crate) use group::{Group, ID_BYTES, new_id};
pub(crate) use sum::Format;

/// A collective, as every rank must call it. Counts are elements, as NCCL counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    AllReduce { count: usize, format: Format },
    ReduceScatter { count: usize, format: Format },
    AllGather { count: usize, format: Format },
    Broadcast { count: usize, format: Format, root: usize },
}

impl Collective {
    /// Its numbers, by which ranks compare.
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

    /// Whether a group of this size can run it.
    pub(crate) fn fits(self, size: usize) -> bool {
        !matches!(self, Self::Broadcast { root, .. } if root >= size)
    }

    /// Bytes that each rank gives and takes.
    pub(crate) fn bytes(self, size: usize) -> (usize, usize) {
        match self {
            Self::AllReduce { count, format } | Self::Broadcast { count, format, .. } => {
                (count * format.size(), count * format.size())
            }
            Self::ReduceScatter { count, format } => (size * count * format.size(), count * format.size()),
            Self::AllGather { count, format } => (count * format.size(), size * count * format.size()),
        }
    }

    /// What every rank takes, from what every rank gives.
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
