//! LoRA adapters of models, from flags.

use std::path::{Path, PathBuf};

use clap::Args;
use spag_model::adapter::Adapter;
use spag_selfplay::adapter_fingerprint;

use crate::{Error, Result};

/// The flag of programs that load one checkpoint.
#[derive(Clone, Debug, Default, Args)]
#[command(rename_all = "snake_case")]
pub struct AdapterArgs {
    /// LoRA adapter of the model: a folder in PEFT's format. Its products are added to the weights, in their number format.
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
}

impl AdapterArgs {
    /// The adapter's folder.
    pub fn folder(&self) -> Option<&Path> {
        self.adapter.as_deref()
    }
}

/// `NAME=DIR`: a checkpoint or an adapter, and its name, or that of the model that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFolder {
    /// The name.
    pub name: String,
    /// The folder, or a file.
    pub folder: PathBuf,
}

impl std::str::FromStr for NamedFolder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, folder)) if !name.is_empty() && !folder.is_empty() => {
                Ok(Self { name: name.to_owned(), folder: folder.into() })
            }
            _ => Err("expected NAME=DIR".into()),
        }
    }
}

/// Reads the adapter in a folder, for the model at `model`, whose weights are not read.
///
/// # Errors
/// The model's configuration cannot be read, or an adapter that is invalid, for another model or trained on another one.
pub fn read(folder: &Path, model: &Path) -> Result<Adapter> {
    Ok(Adapter::load_for(folder, model)?)
}

/// What records say of a model's adapter, after what they say of the model. Nothing without one.
///
/// # Errors
/// As [`read`].
pub fn recorded(adapter: Option<&Path>, model: &Path) -> Result<String> {
    let Some(folder) = adapter else { return Ok(String::new()) };
    read(folder, model)?;
    Ok(format!(" with adapter {}", adapter_fingerprint(folder)?))
}

/// The adapters of several models in their order; `none` is a model without one.
///
/// # Errors
/// Neither none at all nor one for each model.
pub fn of_models(adapters: &[PathBuf], models: usize) -> Result<Vec<Option<&Path>>> {
    match adapters.len() {
        0 => Ok(vec![None; models]),
        given if given == models => {
            let is_none = |folder: &Path| folder == Path::new("none");
            Ok(adapters.iter().map(|folder| Some(folder.as_path()).filter(|folder| !is_none(folder))).collect())
        }
        given => {
            let problem = format!("{given} adapters for {models} models; give one for each, or `none`, in their order");
            Err(Error::BadValue { flag: "--adapter".to_owned(), problem })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_belong_to_models_in_their_order() {
        let given: Vec<PathBuf> = ["none", "a/b"].map(Into::into).to_vec();
        assert_eq!(of_models(&given, 2).unwrap(), [None, Some(Path::new("a/b"))]);
        assert_eq!(of_models(&[], 2).unwrap(), [None, None]);
        assert!(of_models(&given, 3).unwrap_err().to_string().contains("2 adapters for 3 models"));
        let named: NamedFolder = "a=b=c".parse().unwrap();
        assert_eq!((named.name.as_str(), named.folder.as_path()), ("a", Path::new("b=c")));
        assert!(["", "a", "=a", "a="].iter().all(|text| text.parse::<NamedFolder>().is_err()));
    }
}
