//! GGUF: a checkpoint in one file. Its metadata is converted to the keys of a `config.json` and its tensors to those of a
//! weight file, so that everything else works as for a folder.

mod config;
mod names;
mod rope;

use std::collections::BTreeMap;

use spag_io::quote;

use super::format::TensorInfo;
use crate::error::Result;
use crate::gguf::{Entry, Gguf};

impl Gguf {
    /// The architecture, if supported.
    pub(super) fn architecture(&self) -> Result<&str> {
        match self.metadata.text("general.architecture").map_err(|why| self.invalid(why))? {
            Some(name @ ("llama" | "qwen2" | "qwen3" | names::GEMMA3)) => Ok(name),
            Some(other) => Err(self.invalid(format!(
                "architecture \"{}\" is not supported; llama (with Mistral and SmolLM2), qwen2, qwen3 and gemma3 are",
                quote(other)
            ))),
            None => Err(self.invalid("it has no `general.architecture`".into())),
        }
    }

    /// The tensors with Hugging Face names.
    pub(super) fn weights(&self) -> Result<BTreeMap<String, TensorInfo>> {
        let (architecture, mut weights) = (self.architecture()?, BTreeMap::new());
        for (name, Entry { dtype, shape, start, .. }) in &self.tensors {
            if name == names::ROPE_FREQS {
                continue;
            }
            let rows = names::row_order(self, name, shape.first().copied().unwrap_or(1))?;
            let addend = names::addend(architecture, name);
            let info = TensorInfo { dtype: dtype.clone(), shape: shape.clone(), start: *start, rows, addend };
            let other = names::hugging_face(architecture, name);
            if weights.insert(other.clone(), info).is_some() {
                return Err(self.invalid(format!("tensor `{}` is there under two names", quote(&other))));
            }
        }
        Ok(weights)
    }
}
