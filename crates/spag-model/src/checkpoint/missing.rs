//! What to do about a path at which there is no checkpoint.

use std::io::ErrorKind;
use std::path::{Component, Path};

use spag_io::quote;

use crate::error::Error;

/// The folder of the model in a folder of a run's stage.
const MODEL: &str = "model";

/// The error of a checkpoint that does not exist at `path`, with the folder that was probably meant, or how to download it.
pub(super) fn missing(path: &Path) -> Error {
    let within = path.join(MODEL);
    let what = if path.is_dir() { "no config.json in this folder" } else { "no such checkpoint folder or GGUF file" };
    let remedy = if within.join("config.json").is_file() {
        format!("; did you mean {}?", within.display())
    } else if let Some((owner, name)) = hub_id(path) {
        format!(
            "; models of the Hugging Face Hub are downloaded first: `hf download {owner}/{name} --local-dir models/{name}`, \
             then name models/{name}"
        )
    } else {
        String::new()
    };
    spag_io::Error::io(path)(std::io::Error::new(ErrorKind::NotFound, format!("{what}{remedy}"))).into()
}

/// The owner and the name of a path that could be a model of the Hub: two names, the first of which is no folder here.
fn hub_id(path: &Path) -> Option<(String, String)> {
    let parts: Vec<Component<'_>> = path.components().collect();
    let [Component::Normal(owner), Component::Normal(name)] = parts[..] else { return None };
    let is_here = Path::new(owner).exists();
    let text = |part: &std::ffi::OsStr| part.to_str().filter(|text| !text.ends_with(".gguf")).map(quote);
    if is_here { None } else { Some((text(owner)?, text(name)?)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_config;

    #[test]
    fn name_on_the_hub_is_told_how_to_download() {
        let error = load_config("SomeOwner/Some-1B").unwrap_err().to_string();
        assert!(error.contains("`hf download SomeOwner/Some-1B --local-dir models/Some-1B`"), "{error}");
        for path in ["src/Some-1B", "/SomeOwner/Some-1B", "Some-1B", "a/b/c", "SomeOwner/some.gguf", "../Some-1B"] {
            let error = load_config(path).unwrap_err().to_string();
            assert!(error.contains("no such checkpoint folder") && !error.contains("Hub"), "{path}: {error}");
        }
    }

    #[test]
    fn folder_of_a_stage_is_told_its_model() {
        let folder = tempfile::tempdir().unwrap();
        let stage = folder.path().join("spag-3");
        std::fs::create_dir_all(stage.join(MODEL)).unwrap();
        assert!(missing(&stage).to_string().ends_with("spag-3: no config.json in this folder"));
        std::fs::write(stage.join("model/config.json"), "{}").unwrap();
        let error = load_config(&stage).unwrap_err().to_string();
        assert!(error.ends_with(&format!("did you mean {}?", stage.join(MODEL).display())), "{error}");
    }
}
