//! Rows of a JSON list or of JSONL, one at a time.

use std::io::Read;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::blocks::{Block, RowBlocks};
use crate::error::Result;
use crate::row::Layout;

/// Reads rows of type `T` from a JSON list or JSONL; memory does not grow with the file.
///
/// Yields the 1-based row (an element of the list, a line of JSONL) with each value, and ends after the first error.
pub struct RowReader<T> {
    blocks: RowBlocks,
    /// The block that is read and the next place in it.
    block: Option<(Block, usize)>,
    done: bool,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> RowReader<T> {
    /// Opens a file; which layout it has is told by its first character.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::new(RowBlocks::open(path)?))
    }

    /// Reads rows from anything; `path` is what errors name.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn from_reader(path: impl AsRef<Path>, input: impl Read + Send + 'static) -> Result<Self> {
        Ok(Self::new(RowBlocks::from_reader(path, input)?))
    }

    /// Reads rows of a layout that is known.
    pub(crate) fn with_layout(path: &Path, input: impl Read + Send + 'static, layout: Layout) -> Self {
        Self::new(RowBlocks::with_layout(path, input, layout))
    }

    fn new(blocks: RowBlocks) -> Self {
        Self { blocks, block: None, done: false, kind: PhantomData }
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        self.blocks.path()
    }

    fn next_row(&mut self) -> Result<Option<(usize, T)>> {
        loop {
            if let Some((block, at)) = &mut self.block {
                if *at < block.len() {
                    let row = block.row(*at);
                    *at += 1;
                    return Ok(Some((row.number(), row.parse()?)));
                }
                if let Some(error) = block.take_trouble() {
                    return Err(error);
                }
            }
            match self.blocks.next().transpose()? {
                Some(block) => self.block = Some((block, 0)),
                None => return Ok(None),
            }
        }
    }
}

impl<T: DeserializeOwned> Iterator for RowReader<T> {
    type Item = Result<(usize, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.next_row().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

impl<T> std::fmt::Debug for RowReader<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowReader").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}
