//! The model that is planned for: more than this program trains.

use std::{fs, path::Path};

use spag_model::LlamaConfig;

use spag_cli::{Error, Result};

/// A configuration, and a remark where it is not one that this program trains.
pub(crate) struct PlannedModel {
    pub(crate) config: LlamaConfig,
    pub(crate) remark: Option<String>,
}

/// Reads `config.json`, or the one in a folder. Baichuan's has LLaMA's sizes, with other names for some: positions by
/// ALiBi, and q, k and v as one matrix.
///
/// # Errors
/// A file that cannot be read, or an architecture whose memory is not known here.
pub(crate) fn read(path: &Path) -> Result<PlannedModel> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    let text = fs::read_to_string(&path).map_err(spag_io::Error::io(&path))?;
    let mut value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Error::BadValue { flag: path.display().to_string(), problem: error.to_string() })?;
    if value.get("model_type").and_then(|kind| kind.as_str()) != Some("baichuan") {
        return Ok(PlannedModel { config: LlamaConfig::from_file(&path)?, remark: None });
    }
    if let Some(keys) = value.as_object_mut() {
        keys.remove("model_type");
        if let Some(length) = keys.remove("model_max_length") {
            keys.entry("max_position_embeddings").or_insert(length);
        }
    }
    let config: LlamaConfig = serde_json::from_value(value)
        .map_err(|error| Error::BadValue { flag: path.display().to_string(), problem: error.to_string() })?;
    config.check()?;
    let remark = format!("{} is a Baichuan: it is planned for, and not trained by spag-train", path.display());
    Ok(PlannedModel { config, remark: Some(remark) })
}
