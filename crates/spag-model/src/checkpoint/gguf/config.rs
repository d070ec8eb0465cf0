//! Converts the metadata of a GGUF file to the keys of a `config.json`.

use candle_core::quantized::GgmlDType;
use serde_json::{Map, Value, json};
use spag_io::quote;

use super::{names, rope};
use crate::config::ModelConfig;
use crate::dtype::StoredDtype;
use crate::error::{Error, Result};
use crate::gguf::Gguf;

/// Architecture keys of unsupported computations, with the values that disable them.
const NEUTRAL: [(&str, f64); 9] = [
    ("expert_count", 0.0),
    ("attn_logit_softcapping", 0.0),
    ("final_logit_softcapping", 0.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.scale", 0.0),
    ("logit_scale", 1.0),
    ("residual_scale", 1.0),
    ("embedding_scale", 1.0),
    ("rope.scaling.attn_factor", 1.0),
];

const EPSILON: &str = "attention.layer_norm_rms_epsilon";

impl Gguf {
    /// The configuration of the model.
    ///
    /// # Errors
    /// [`Error::WeightFile`] naming a key that is missing, has another type, or requests an unsupported computation; or as
    /// [`ModelConfig::from_keys`].
    pub(crate) fn config(&self) -> Result<ModelConfig> {
        ModelConfig::from_keys(self.keys()?).map_err(|error| match error {
            Error::Config(why) => self.invalid(format!("as a config.json: {why}")),
            other => other,
        })
    }

    /// Numbers of query heads and of key/value heads.
    pub(super) fn heads(&self) -> Result<(usize, usize)> {
        let query = self.required_size("attention.head_count")?;
        Ok((query, self.size("attention.head_count_kv")?.unwrap_or(query)))
    }

    fn keys(&self) -> Result<Map<String, Value>> {
        let architecture = self.architecture()?;
        self.check_kind()?;
        let hidden = self.required_size("embedding_length")?;
        let (query, kv) = self.heads()?;
        let head = self.head_dim(hidden, query)?;
        let theta = self.number("rope.freq_base")?.unwrap_or(10_000.0);
        let mut keys = json!({
            "model_type": architecture,
            "hidden_size": hidden,
            "intermediate_size": self.required_size("feed_forward_length")?,
            "num_hidden_layers": self.required_size("block_count")?,
            "num_attention_heads": query,
            "num_key_value_heads": kv,
            "head_dim": head,
            "max_position_embeddings": self.required_size("context_length")?,
            "rms_norm_eps": self.number(EPSILON)?.ok_or_else(|| self.missing(EPSILON))?,
            "rope_theta": theta,
            "rope_scaling": rope::scaling(self, theta, head)?,
            "vocab_size": self.vocabulary()?,
            "tie_word_embeddings": !self.tensors.contains_key(names::HEAD),
            "torch_dtype": self.torch_dtype(),
        });
        let has = |part: &str| self.tensors.contains_key(&format!("blk.0.{part}.bias"));
        match (architecture, self.size("attention.sliding_window")?.filter(|window| *window > 0)) {
            ("llama", Some(window)) => {
                keys["model_type"] = "mistral".into();
                keys["sliding_window"] = window.into();
            }
            ("llama", None) => {
                keys["attention_bias"] = has("attn_q").into();
                keys["mlp_bias"] = has("ffn_up").into();
            }
            (names::GEMMA3, window) => {
                keys["model_type"] = "gemma3_text".into();
                keys["sliding_window"] = window.into();
                keys["sliding_window_pattern"] = self.size("attention.sliding_window_pattern")?.unwrap_or(6).into();
                keys["rope_local_base_freq"] = self.number("rope.freq_base_swa")?.unwrap_or(10_000.0).into();
                // As in llama.cpp, which knows the model of 27B by its layers.
                let is_27b = keys["num_hidden_layers"] == 62;
                keys["query_pre_attn_scalar"] = (if is_27b { hidden / query } else { head }).into();
            }
            (_, Some(window)) => {
                let key = format!("{architecture}.attention.sliding_window");
                let why = format!("`{key}` is {window}; which layers have the window is not in the file");
                return Err(self.invalid(why));
            }
            ("qwen3", None) => keys["attention_bias"] = has("attn_q").into(),
            _ => keys["use_sliding_window"] = false.into(),
        }
        for (key, id) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
            if let Some(id) = self.whole(&format!("tokenizer.ggml.{id}_token_id"))? {
                keys[key] = id.into();
            }
        }
        match keys {
            Value::Object(keys) => Ok(keys),
            _ => Ok(Map::new()),
        }
    }

    /// Refuses files of another kind and unsupported computations.
    fn check_kind(&self) -> Result<()> {
        match self.metadata.text("general.type").map_err(|why| self.invalid(why))? {
            None | Some("model") => {}
            Some(other) => return Err(self.invalid(format!("it is of type \"{}\", not a model", quote(other)))),
        }
        for (key, neutral) in NEUTRAL {
            if let Some(found) = self.number(key)?.filter(|found| *found != neutral) {
                let key = self.key(key)?;
                return Err(
                    self.invalid(format!("`{key}` is {found}: it changes the computation and is not supported"))
                );
            }
        }
        let causal = self.key("attention.causal")?;
        match self.metadata.truth(&causal).map_err(|why| self.invalid(why))? {
            Some(false) => Err(self.invalid(format!("`{causal}` is false; tokens see only those before them here"))),
            _ => Ok(()),
        }
    }

    /// The head size, which must be the same for queries, keys and values, with all of it rotated.
    fn head_dim(&self, hidden: usize, heads: usize) -> Result<usize> {
        let head = match self.size("attention.key_length")? {
            Some(head) => head,
            None => match hidden.checked_div(heads) {
                Some(head) if head * heads == hidden => head,
                _ => {
                    let (hidden_key, heads_key) = (self.key("embedding_length")?, self.key("attention.head_count")?);
                    return Err(
                        self.invalid(format!("`{hidden_key}` {hidden} is no multiple of `{heads_key}` {heads}"))
                    );
                }
            },
        };
        for key in ["attention.value_length", "rope.dimension_count"] {
            if let Some(found) = self.size(key)?.filter(|found| *found != head) {
                let key = self.key(key)?;
                return Err(self.invalid(format!("`{key}` is {found} and the head size {head}; they must be equal")));
            }
        }
        Ok(head)
    }

    /// Rows of the embedding, which may exceed the number of tokens.
    fn vocabulary(&self) -> Result<usize> {
        match self.tensors.get(names::EMBEDDING).and_then(|embedding| embedding.shape.first()) {
            Some(rows) => Ok(*rows),
            None => Err(self.invalid(format!("tensor `{}` is missing", names::EMBEDDING))),
        }
    }

    /// The number format of the model before quantisation, inferred from the embedding; bf16 if that is quantised.
    fn torch_dtype(&self) -> &'static str {
        match self.tensors.get(names::EMBEDDING).map(|embedding| &embedding.dtype) {
            Some(StoredDtype::Read(GgmlDType::F32)) => "float32",
            Some(StoredDtype::Read(GgmlDType::F16)) => "float16",
            _ => "bfloat16",
        }
    }

    /// The key of the architecture.
    pub(super) fn key(&self, name: &str) -> Result<String> {
        Ok(format!("{}.{name}", self.architecture()?))
    }

    fn whole(&self, key: &str) -> Result<Option<usize>> {
        self.metadata.size(key).map_err(|why| self.invalid(why))
    }

    fn size(&self, name: &str) -> Result<Option<usize>> {
        self.whole(&self.key(name)?)
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>> {
        self.metadata.number(&self.key(name)?).map_err(|why| self.invalid(why))
    }

    fn required_size(&self, name: &str) -> Result<usize> {
        self.size(name)?.ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Error {
        let key = self.key(name).unwrap_or_else(|_| name.to_owned());
        self.invalid(format!("it has no `{key}`"))
    }
}
