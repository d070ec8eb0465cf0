//! The group of one process.

use crate::{Error, ProcessGroup, Result};

/// One process on its own: every collective is the identity, and checks its arguments as any other group does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Single;

/// Copies `from` into `to`, which must be as long.
fn copy(operation: &'static str, from: &[f32], to: &mut [f32], whole: usize, part: usize) -> Result<()> {
    if from.len() != to.len() {
        return Err(Error::BufferLength { operation, whole, part, size: 1 });
    }
    to.copy_from_slice(from);
    Ok(())
}

impl ProcessGroup for Single {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_reduce(&mut self, _buffer: &mut [f32]) -> Result<()> {
        Ok(())
    }

    fn broadcast(&mut self, _buffer: &mut [f32], root: usize) -> Result<()> {
        match root {
            0 => Ok(()),
            rank => Err(Error::NoSuchRank { operation: "broadcast", rank, size: 1 }),
        }
    }

    fn all_gather(&mut self, part: &[f32], whole: &mut [f32]) -> Result<()> {
        let (whole_len, part_len) = (whole.len(), part.len());
        copy("all_gather", part, whole, whole_len, part_len)
    }

    fn reduce_scatter(&mut self, whole: &[f32], part: &mut [f32]) -> Result<()> {
        let (whole_len, part_len) = (whole.len(), part.len());
        copy("reduce_scatter", whole, part, whole_len, part_len)
    }

    fn barrier(&mut self) -> Result<()> {
        Ok(())
    }
}
