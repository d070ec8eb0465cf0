//! Writes tensors to one safetensors file, or to shards with an index. Each file is written atomically, and at every
//! moment the folder holds the earlier tensors, the new ones, or none that a reader accepts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use serde_json::json;
use spag_io::write_json_atomically;

use super::options::WriteOptions;
use super::tensor_file::{self, TensorEntry, TensorProvider, WrittenFile};
use crate::dtype::WeightDtype;
use crate::error::Result;
use crate::params::{Layout, WeightSource};

/// Writes all tensors of `source` (weights, master weights, moments) under their Hugging Face names to
/// `stem.safetensors`, or to shards with an index. Layers are unsharded once, in order.
///
/// # Errors
/// The folder cannot be written, or the weight source fails.
pub fn write_buffers(
    source: &dyn WeightSource,
    dir: impl AsRef<Path>,
    stem: &str,
    options: WriteOptions,
) -> Result<Vec<WrittenFile>> {
    let layout = source.layout();
    // The unsharded layer, kept until all of its views are written.
    let current: RefCell<Option<(usize, Tensor)>> = RefCell::default();
    let written = write_tensors(layout, dir.as_ref(), stem, options, &|layer, view| {
        let mut current = current.borrow_mut();
        let buffer = match current.take() {
            Some((index, buffer)) if index == layer => buffer,
            previous => {
                if let Some((index, _)) = previous {
                    source.reshard(index);
                }
                source.unshard(layer, Some(layer + 1).filter(|next| *next < layout.layers.len()))?
            }
        };
        let tensor = layout.view(&buffer, layer, view);
        *current = Some((layer, buffer));
        tensor
    });
    if let Some((index, _)) = current.take() {
        source.reshard(index);
    }
    written
}

/// Writes every tensor of `layout`, in order.
pub(super) fn write_tensors(
    layout: &Layout,
    dir: &Path,
    stem: &str,
    options: WriteOptions,
    tensors: TensorProvider<'_>,
) -> Result<Vec<WrittenFile>> {
    let files = ShardFiles::new(layout, stem, options);
    files.begin(dir)?;
    let written = (0..files.count()).map(|file| files.write(dir, file, tensors)).collect::<Result<_>>()?;
    files.finish(dir)?;
    Ok(written)
}

/// The files that the tensors of a layout are written to: one, or shards with an index. They may be written in any order, by several
/// processes, between [`ShardFiles::begin`] and [`ShardFiles::finish`].
#[derive(Clone, Debug)]
pub struct ShardFiles {
    layout: Layout,
    stem: String,
    dtype: WeightDtype,
    /// The layer and view of each tensor of each file, in order.
    files: Vec<Vec<(usize, usize)>>,
}

impl ShardFiles {
    /// `stem.safetensors`, or shards if the tensors have more bytes than the options allow in a file.
    pub fn new(layout: &Layout, stem: &str, options: WriteOptions) -> Self {
        let mut files: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
        let mut filled = 0u64;
        for (l, layer) in layout.layers.iter().enumerate() {
            for (v, view) in layer.views.iter().enumerate() {
                let bytes = (view.len() * options.dtype.bytes()) as u64;
                if filled > 0 && filled + bytes > options.max_shard_bytes {
                    files.push(Vec::new());
                    filled = 0;
                }
                filled += bytes;
                if let Some(file) = files.last_mut() {
                    file.push((l, v));
                }
            }
        }
        Self { layout: layout.clone(), stem: stem.to_owned(), dtype: options.dtype, files }
    }

    /// Number of files.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// The layers with tensors of a file, ascending.
    pub fn layers(&self, file: usize) -> Vec<usize> {
        let mut layers: Vec<usize> = self.files[file].iter().map(|(layer, _)| *layer).collect();
        layers.dedup();
        layers
    }

    /// The layout of the tensors.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Before the first file. Shards may replace those of an earlier checkpoint one by one: without an index, no reader accepts the
    /// mixture.
    ///
    /// # Errors
    /// An index that cannot be removed.
    pub fn begin(&self, dir: &Path) -> Result<()> {
        if self.count() > 1 { remove(&self.index(dir)) } else { Ok(()) }
    }

    /// Writes a file. `tensors` gives the tensor of a layer and a view, in order.
    ///
    /// # Errors
    /// The folder cannot be written, or what `tensors` returns.
    pub fn write(
        &self,
        dir: &Path,
        file: usize,
        tensors: &dyn Fn(usize, usize) -> Result<Tensor>,
    ) -> Result<WrittenFile> {
        let views = |(layer, view): &(usize, usize)| (*layer, *view, &self.layout.layers[*layer].views[*view]);
        let entries: Vec<TensorEntry<'_>> = self.files[file].iter().map(views).collect();
        tensor_file::write(dir, &self.name(file), &entries, self.dtype, tensors)
    }

    /// After the last file: the index, if there are several, and an end to what an earlier checkpoint has left.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn finish(&self, dir: &Path) -> Result<()> {
        let Self { stem, files, layout, .. } = self;
        if self.count() == 1 {
            // A single file takes precedence over an index, so leftovers of an earlier checkpoint only take space.
            let _ = fs::remove_file(self.index(dir));
            remove_other_shards(dir, stem, 0);
            return Ok(());
        }
        let mut map = BTreeMap::new();
        for (number, file) in files.iter().enumerate() {
            let name = |(layer, view): &(usize, usize)| layout.layers[*layer].views[*view].name.clone();
            map.extend(file.iter().map(|tensor| (name(tensor), self.name(number))));
        }
        let contents = json!({"metadata": {"total_size": layout.len() * self.dtype.bytes()}, "weight_map": map});
        // A single file of an earlier checkpoint would take precedence over the index.
        remove(&dir.join(format!("{stem}.safetensors")))?;
        write_json_atomically(self.index(dir), &contents)?;
        remove_other_shards(dir, stem, self.count());
        Ok(())
    }

    fn name(&self, file: usize) -> String {
        match self.count() {
            1 => format!("{}.safetensors", self.stem),
            count => shard_name(&self.stem, file + 1, count),
        }
    }

    fn index(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{}.safetensors.index.json", self.stem))
    }
}

fn shard_name(stem: &str, number: usize, count: usize) -> String {
    format!("{stem}-{number:05}-of-{count:05}.safetensors")
}

/// Removes a file if it exists.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(spag_io::Error::io(path)(error).into()),
        _ => Ok(()),
    }
}

/// Removes shards of an earlier checkpoint that are not among the `count` new ones. Best effort: no index names them,
/// but some programs read every safetensors file of a folder.
fn remove_other_shards(dir: &Path, stem: &str, count: usize) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let numbers = name
            .to_str()
            .and_then(|name| {
                name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(".safetensors")?.split_once("-of-")
            })
            .and_then(|(number, count)| Some((number.parse::<usize>().ok()?, count.parse::<usize>().ok()?)));
        if numbers.is_some_and(|(number, of)| of != count && name == *shard_name(stem, number, of)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
