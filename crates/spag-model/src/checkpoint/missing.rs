//! Errors with advice for paths without a checkpoint.

use std::io::ErrorKind;
use std::path::{Component, Path};

use spag_io::quote;

use crate::error::Error;
use crate::gguf::is_gguf;

/// The model folder inside a stage's folder.
const MODEL: &str = "model";

/// Files by which checkpoint and adapter folders are recognised.
const CONFIG: &str = "config.json";
const ADAPTER: &str = "adapter_config.json";
/// The snapshots folder in a folder of the Hub's cache, `models--OWNER--NAME`.
const SNAPSHOTS: &str = "snapshots";
/// Maximum folders listed in a message.
const SHOWN: usize = 5;

/// The error for a missing checkpoint, suggesting the folder that was probably meant, or how to download it.
pub(super) fn missing(path: &Path) -> Error {
    let within = path.join(MODEL);
    let names = |folders: &str| format!("; did you mean {folders}?");
    let what = if path.is_dir() { "no config.json in this folder" } else { "no such checkpoint folder or GGUF file" };
    let remedy = if within.join("config.json").is_file() {
        names(&within.display().to_string())
    } else if path.join(ADAPTER).is_file() {
        "; this is an adapter: name its base model here, and this folder as the adapter".to_owned()
    } else if let Some(snapshots) = folders_with(&path.join(SNAPSHOTS), CONFIG) {
        format!("; this is a folder of the Hub's cache, whose checkpoint is {snapshots}")
    } else if let Some(folders) = folders_with(path, CONFIG) {
        names(&folders)
    } else if let Some(folders) = folders_with(path, ADAPTER) {
        format!("; it holds adapters, {folders}: name their base model here, and one of them as the adapter")
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

/// Paths of subfolders of `dir` with a file of this name, abridged; `None` if there are none.
pub(crate) fn folders_with(dir: &Path, file: &str) -> Option<String> {
    let entries = std::fs::read_dir(dir).ok()?;
    let mut found: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.join(file).is_file()).collect();
    found.sort();
    let more = if found.len() > SHOWN { ", …" } else { "" };
    let shown: Vec<String> = found.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
    (!shown.is_empty()).then(|| shown.join(", ") + more)
}

/// The error for a file that is not GGUF but part of a checkpoint folder; `None` for others.
pub(super) fn part_of_folder(path: &Path) -> Option<Error> {
    let extension = path.extension()?.to_str()?;
    let is_part = ["json", "safetensors", "bin", "model"].contains(&extension) && !is_gguf(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let why = format!("this is a file of a checkpoint; name its folder, {}", folder.display());
    is_part.then(|| spag_io::Error::io(path)(std::io::Error::new(ErrorKind::NotADirectory, why)).into())
}

/// The owner and name if a path looks like a Hub model ID: two names, the first of which is not a folder here.
fn hub_id(path: &Path) -> Option<(String, String)> {
    let parts: Vec<Component<'_>> = path.components().collect();
    let [Component::Normal(owner), Component::Normal(name)] = parts[..] else { return None };
    let is_here = Path::new(owner).exists();
    let text = |part: &std::ffi::OsStr| part.to_str().filter(|text| !text.ends_with(".gguf")).map(quote);
    if is_here { None } else { Some((text(owner)?, text(name)?)) }
}

#[cfg(test)]
mod tests {
    use spag_io::{Classify, ErrorClass};

    use super::*;
    use crate::adapter::LoraConfig;
    use crate::checkpoint::load_config;

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

    #[test]
    fn folders_around_checkpoints_and_files_in_them_are_told_what_to_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (name, file) in [
            ("models--a--b/snapshots/12ab", CONFIG),
            ("trained/checkpoint-5", CONFIG),
            ("adapters/one", ADAPTER),
            ("adapters/two", ADAPTER),
        ] {
            std::fs::create_dir_all(root.join(name)).unwrap();
            std::fs::write(root.join(name).join(file), "{}").unwrap();
        }
        std::fs::write(root.join("adapters/one/adapter_model.safetensors"), "").unwrap();
        for (name, expected) in [
            ("models--a--b", "models--a--b/snapshots/12ab"),
            ("models--a--b/snapshots", "did you mean"),
            ("trained", "trained/checkpoint-5?"),
            ("adapters", "adapters/one, "),
            ("adapters/one", "this is an adapter"),
            ("trained/checkpoint-5/config.json", "name its folder, "),
            ("adapters/one/adapter_model.safetensors", "name its folder, "),
        ] {
            let error = load_config(root.join(name)).unwrap_err();
            assert!(error.to_string().contains(expected), "{name}: {error}");
            assert_eq!(error.class(), ErrorClass::BadInput);
        }
        let error = LoraConfig::load(root.join("adapters")).map(drop).unwrap_err().to_string();
        assert!(error.contains("adapters/one") && error.contains("adapters/two"), "{error}");
    }
}
