//! Weights in: one safetensors file or shards with an index, in f32, f16 or bf16.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_core::Device;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::llama::Llama;
use crate::ops::cpu;
use crate::params::{FlatBuffers, Layout};

pub(super) fn config(dir: &Path) -> Result<LlamaConfig> {
    if !dir.is_dir() {
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, "no such checkpoint folder");
        return Err(Error::Io { path: dir.to_owned(), source });
    }
    LlamaConfig::from_file(dir.join("config.json"))
}

pub(super) fn model(dir: &Path, config: LlamaConfig) -> Result<Llama> {
    let layout = Layout::new(&config);
    let parameters = FlatBuffers::zeros(&layout, &Device::Cpu)?;
    let mut missing: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (l, layer) in layout.layers.iter().enumerate() {
        for (v, view) in layer.views.iter().enumerate() {
            missing.insert(view.name.clone(), (l, v));
        }
    }
    for file in weight_files(dir)? {
        // One file at a time in memory beside the parameters.
        let bytes = std::fs::read(&file).map_err(Error::io(&file))?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|e| Error::Safetensors { path: file.clone(), reason: e.to_string() })?;
        // In order, so that of several faults the same one is reported each time.
        let mut names: Vec<&str> = tensors.names().into_iter().collect();
        names.sort_unstable();
        for name in names {
            // Tensors that the architecture does not have (old rotary tables, a second tied head) are passed over.
            let Some((l, v)) = missing.remove(name) else { continue };
            let tensor =
                tensors.tensor(name).map_err(|e| Error::Safetensors { path: file.clone(), reason: e.to_string() })?;
            let view = parameters.view(l, v)?;
            if tensor.shape() != view.dims() {
                return Err(Error::Shape {
                    path: dir.to_owned(),
                    name: name.to_owned(),
                    found: tensor.shape().to_vec(),
                    expected: view.dims().to_vec(),
                });
            }
            copy_into(dir, name, &tensor, &view)?;
        }
    }
    match missing.into_keys().next() {
        Some(name) => Err(Error::MissingTensor { path: dir.to_owned(), name, layers: config.num_hidden_layers }),
        None => Llama::from_parameters(&config, parameters),
    }
}

/// The safetensors files of a folder: the single file, or every shard that the index names.
fn weight_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let single = dir.join("model.safetensors");
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index = dir.join("model.safetensors.index.json");
    if !index.is_file() {
        return Err(Error::MissingFile {
            path: dir.to_owned(),
            what: "weights",
            expected: "model.safetensors, or model.safetensors.index.json with its shards \
                       (pytorch_model.bin can be converted with transformers: save_pretrained)",
        });
    }
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let text = std::fs::read_to_string(&index).map_err(Error::io(&index))?;
    let parsed: Index =
        serde_json::from_str(&text).map_err(|source| Error::Json { path: index, what: "safetensors index", source })?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// Converts a stored tensor to f32 into its place.
fn copy_into(dir: &Path, name: &str, from: &TensorView<'_>, to: &candle_core::Tensor) -> Result<()> {
    let bytes = from.data();
    let convert: fn(&[u8], &mut [f32]) = match from.dtype() {
        Dtype::F32 => |bytes, out| {
            for (b, o) in bytes.as_chunks::<4>().0.iter().zip(out) {
                *o = f32::from_le_bytes(*b);
            }
        },
        Dtype::BF16 => |bytes, out| {
            for (b, o) in bytes.as_chunks::<2>().0.iter().zip(out) {
                *o = half::bf16::from_le_bytes(*b).to_f32();
            }
        },
        Dtype::F16 => |bytes, out| {
            for (b, o) in bytes.as_chunks::<2>().0.iter().zip(out) {
                *o = half::f16::from_le_bytes(*b).to_f32();
            }
        },
        other => {
            return Err(Error::Dtype { path: dir.to_owned(), name: name.to_owned(), dtype: format!("{other:?}") });
        }
    };
    cpu::update(to, |out| {
        convert(bytes, out);
        Ok(())
    })?;
    Ok(())
}
