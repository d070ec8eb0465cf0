//! The weight files of a folder: one file, or the shards of an index. Unused tensors are an error, unless known to be
//! redundant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use spag_io::{quote, read_whole};

use super::format::{Format, TensorInfo};
use super::weight_file::{Stored, Values, WeightFile};
use crate::dtype::StoredDtype;
use crate::error::{Error, Result};
use crate::params::Layout;
use crate::params::names::HEAD;

/// Maximum bytes of an index.
const MAX_INDEX: u64 = 64 << 20;
/// Buffers saved by older versions of transformers, which are derived from the configuration.
const COMPUTED: [&str; 3] = [".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached"];
/// Prefixes of tensors of multimodal models that the text model does not have.
const OF_IMAGES: [&str; 2] = ["vision_tower.", "multi_modal_projector."];
/// The stem of a model's weights.
pub const MODEL: &str = "model";
/// The stem of an adapter's weights in a PEFT folder.
pub const ADAPTER: &str = "adapter_model";

/// The weight files found in a folder.
struct Found {
    format: Format,
    paths: Vec<PathBuf>,
    /// The index and its content, for shards.
    index: Option<(PathBuf, BTreeMap<String, String>)>,
}

/// Paths of the files of `stem`: the single file, or all shards of the index.
pub(super) fn paths(dir: &Path, stem: &str) -> Result<Vec<PathBuf>> {
    Ok(find(dir, stem)?.paths)
}

/// Finds the files of `stem`. A model or an adapter may also be in PyTorch's format; safetensors come first, as in transformers.
fn find(dir: &Path, stem: &str) -> Result<Found> {
    let torch = match stem {
        MODEL => Some("pytorch_model"),
        ADAPTER => Some(ADAPTER),
        _ => None,
    };
    let torch = torch.map(|stem| (Format::Torch, stem));
    for (format, stem) in [(Format::Safetensors, stem)].into_iter().chain(torch) {
        let single = dir.join(format!("{stem}{}", format.extension()));
        if single.try_exists().map_err(spag_io::Error::io(&single))? {
            return Ok(Found { format, paths: vec![single], index: None });
        }
        let index = dir.join(format!("{stem}{}.index.json", format.extension()));
        if index.try_exists().map_err(spag_io::Error::io(&index))? {
            let map = read_index(&index, format)?;
            let shards: BTreeSet<&String> = map.values().collect();
            let paths = shards.into_iter().map(|shard| dir.join(shard)).collect();
            return Ok(Found { format, paths, index: Some((index, map)) });
        }
    }
    let expected = match stem {
        MODEL => "model.safetensors or pytorch_model.bin, or the index of either (.index.json) with its shards",
        ADAPTER => "adapter_model.safetensors or adapter_model.bin",
        _ => {
            let single = dir.join(format!("{stem}{}", Format::Safetensors.extension()));
            return Err(spag_io::Error::io(&single)(ErrorKind::NotFound.into()).into());
        }
    };
    Err(Error::MissingFile { path: dir.to_owned(), what: "weights", expected })
}

/// The shard of every tensor. Shards must be in the folder of the index: files of other folders are not part of the
/// checkpoint.
fn read_index(path: &Path, format: Format) -> Result<BTreeMap<String, String>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let invalid = |reason: String| Error::Json { path: path.to_owned(), what: "index of weights", reason };
    let bytes = read_whole(path, MAX_INDEX)?;
    let Index { weight_map } = serde_json::from_slice(&bytes).map_err(|e| invalid(quote(&e.to_string())))?;
    let extension = format.extension();
    for (name, shard) in &weight_map {
        let mut parts = Path::new(shard).components();
        let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !is_name || !shard.ends_with(extension) {
            return Err(invalid(format!(
                "tensor `{}` is said to be in \"{}\"; expected the name of a {extension} file in the same folder",
                quote(name),
                quote(shard)
            )));
        }
    }
    Ok(weight_map)
}

/// Whether a tensor of a multimodal model belongs to its part for images.
fn is_of_images(name: &str) -> bool {
    OF_IMAGES.iter().any(|prefix| name.starts_with(prefix))
}

/// The location of a tensor.
pub(super) struct Located<'a> {
    pub(super) file: &'a WeightFile,
    pub(super) name: String,
}

impl Located<'_> {
    /// Its place in the file.
    pub(super) fn info(&self) -> &TensorInfo {
        &self.file.tensors[&self.name]
    }

    /// Its bytes in the file; 0 if its number format is not supported.
    pub(super) fn bytes(&self) -> u64 {
        let TensorInfo { dtype, shape, .. } = self.info();
        let count = shape.iter().fold(1u64, |product, size| product.saturating_mul(*size as u64));
        match dtype {
            StoredDtype::Read(format) => count / format.block_size() as u64 * format.type_size() as u64,
            StoredDtype::Other(_) => 0,
        }
    }
}

/// The opened files of a folder, with their headers.
pub(super) struct WeightFiles {
    dir: PathBuf,
    files: Vec<WeightFile>,
    values: Values,
}

impl WeightFiles {
    /// Opens the files of `stem` ("model" for a model's weights) and checks their headers.
    pub(super) fn open(dir: &Path, stem: &str) -> Result<Self> {
        let Found { format, paths, index } = find(dir, stem)?;
        let files = paths.iter().map(|path| WeightFile::open(path, format)).collect::<Result<Vec<_>>>()?;
        if let Some((index, map)) = index {
            for (name, shard) in map {
                let file = files.iter().find(|file| file.path.ends_with(&shard));
                if !file.is_some_and(|file| file.tensors.contains_key(&name)) {
                    let reason = format!("it says that tensor `{}` is in {shard}, which lacks it", quote(&name));
                    return Err(Error::Json { path: index, what: "index of weights", reason });
                }
            }
        }
        let values = if matches!(stem, MODEL | "master" | ADAPTER) { Values::Finite } else { Values::Any };
        Ok(Self { dir: dir.to_owned(), files, values })
    }

    /// Opens a GGUF file of a model.
    pub(super) fn of_gguf(path: &Path) -> Result<Self> {
        let files = vec![WeightFile::open(path, Format::Gguf)?];
        Ok(Self { dir: path.to_owned(), files, values: Values::Finite })
    }

    /// Checks that the files hold exactly the tensors of `layout`, with its shapes.
    pub(super) fn check(&self, layout: &Layout) -> Result<()> {
        self.for_each(layout, |_, _, _, _| Ok(()))
    }

    /// The location of the tensor with this name.
    pub(super) fn find(&self, name: &str) -> Option<Located<'_>> {
        let file = self.files.iter().find(|file| file.tensors.contains_key(name))?;
        Some(Located { file, name: name.to_owned() })
    }

    /// The number of tensors of a multimodal model's part for images.
    pub(super) fn count_of_images(&self) -> usize {
        self.files.iter().flat_map(|file| file.tensors.keys()).filter(|name| is_of_images(name)).count()
    }

    /// Requirements on the values of the tensors.
    pub(super) fn values(&self) -> Values {
        self.values
    }

    /// The locations of `layout`'s tensors, by layer, in the order of its views.
    ///
    /// # Errors
    /// As [`WeightFiles::check`].
    pub(super) fn locate(&self, layout: &Layout) -> Result<Vec<Vec<Located<'_>>>> {
        let mut found = BTreeMap::new();
        self.for_each(layout, |file, name, _, at| {
            found.insert(at, Located { file, name: name.to_owned() });
            Ok(())
        })?;
        let mut layers: Vec<Vec<Located<'_>>> = layout.layers.iter().map(|_| Vec::new()).collect();
        for ((layer, _), located) in found {
            layers[layer].push(located);
        }
        Ok(layers)
    }

    /// Calls `read` for every tensor of `layout`, in file order, with the indices of its layer and view.
    pub(super) fn read(
        &self,
        layout: &Layout,
        mut read: impl FnMut(&WeightFile, &mut File, Stored<'_>, (usize, usize)) -> Result<()>,
    ) -> Result<()> {
        self.check(layout)?;
        let mut open: Option<(&Path, File)> = None;
        self.for_each(layout, |file, name, info, at| {
            let mut reader = match open.take() {
                Some((path, reader)) if path == file.path => reader,
                _ => File::open(&file.path).map_err(spag_io::Error::io(&file.path))?,
            };
            let tensor = Stored { name, info, values: self.values };
            read(file, &mut reader, tensor, at)?;
            open = Some((&file.path, reader));
            Ok(())
        })
    }

    fn for_each<'a>(
        &'a self,
        layout: &Layout,
        mut each: impl FnMut(&'a WeightFile, &str, &TensorInfo, (usize, usize)) -> Result<()>,
    ) -> Result<()> {
        // The embedding and the head are layers too.
        let layers = layout.layers.len().saturating_sub(2);
        let mut missing: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (l, layer) in layout.layers.iter().enumerate() {
            for (v, view) in layer.views.iter().enumerate() {
                missing.insert(&view.name, (l, v));
            }
        }
        let head = format!("{}{HEAD}", layout.prefix());
        let is_tied = !missing.contains_key(head.as_str());
        let is_multimodal = !layout.prefix().is_empty();
        let is_skipped = |name: &str| {
            COMPUTED.iter().any(|end| name.ends_with(end))
                || (is_tied && name == head)
                || (is_multimodal && is_of_images(name))
        };
        let mut unused: Option<(&Path, &str)> = None;
        let mut others = 0;
        for file in &self.files {
            for (name, info) in &file.tensors {
                if let Some(at) = missing.remove(name.as_str()) {
                    let expected = &layout.layers[at.0].views[at.1].shape;
                    if info.shape != *expected {
                        let (path, name) = (self.dir.clone(), name.to_owned());
                        return Err(Error::Shape { path, name, found: info.shape.clone(), expected: expected.clone() });
                    }
                    file.check_dtype(name, info)?;
                    each(file, name, info, at)?;
                } else if is_skipped(name) {
                    continue;
                } else if unused.is_some() {
                    others += 1;
                } else {
                    unused = Some((&file.path, name));
                }
            }
        }
        if let Some(name) = missing.into_keys().next() {
            return Err(Error::MissingTensor { path: self.dir.clone(), name: name.to_owned(), layers });
        }
        match unused {
            Some((path, name)) => Err(Error::UnusedTensor { path: path.to_owned(), name: quote(name), others, layers }),
            None => Ok(()),
        }
    }
}
