//! The checkpoints of `spag serve` and their names.

use std::path::Path;

use spag_cli::adapter_args::{self, NamedFolder};
use spag_cli::{Error, Result};
use spag_serve::{AdapterToServe, ModelToServe};

use super::ServeArgs;
use crate::model_name::model_name;

/// The folders of all checkpoints and adapters, in the order of the flags.
pub(super) fn folders(args: &ServeArgs) -> Vec<&Path> {
    let named = args.model.iter().chain(&args.adapter).map(|model| model.folder.as_path());
    args.folder.as_deref().into_iter().chain(named).collect()
}

/// The names of all checkpoints and adapters.
pub(super) fn names(args: &ServeArgs) -> Result<Vec<String>> {
    let checkpoints = named(args)?.into_iter().flat_map(|(names, _)| names);
    Ok(checkpoints.chain(args.adapter.iter().map(|adapter| adapter.name.clone())).collect())
}

/// The names and the folder of each checkpoint.
fn named(args: &ServeArgs) -> Result<Vec<(Vec<String>, &Path)>> {
    let mut folders: Vec<(Vec<String>, &Path)> = Vec::new();
    if let Some(folder) = &args.folder {
        let names = match args.served_model_name.as_slice() {
            [] => vec![own_name(folder)?],
            names => names.to_vec(),
        };
        folders.push((names, folder));
    }
    folders.extend(args.model.iter().map(|model| (vec![model.name.clone()], model.folder.as_path())));
    if folders.is_empty() {
        let problem = "name a checkpoint: `spag serve DIR`, or --model NAME=DIR".to_owned();
        return Err(Error::BadValue { flag: "MODEL".into(), problem });
    }
    Ok(folders)
}

/// Loads all checkpoints.
pub(super) fn load(args: &ServeArgs) -> Result<Vec<ModelToServe>> {
    let folders = named(args)?;
    let engines = folders.len();
    let given = |NamedFolder { name, folder }| AdapterToServe { name, folder };
    let mut adapters: Vec<AdapterToServe> = args.adapter.iter().cloned().map(given).collect();
    let mut load = |(names, folder): (Vec<String>, &Path)| {
        // Of the first one.
        let adapters = std::mem::take(&mut adapters);
        for AdapterToServe { folder: adapter, .. } in &adapters {
            adapter_args::read(adapter, folder)?;
        }
        let checkpoint = args.loading.load(folder)?;
        let positions = checkpoint.model.config().architecture.max_position_embeddings;
        if let Some(asked) = args.max_length.filter(|asked| *asked > positions) {
            let problem = format!("{} has {positions} positions; ask for no more", folder.display());
            return Err(Error::BadValue { flag: format!("--max_length {asked}"), problem });
        }
        let engine = args.engine.for_model(&checkpoint.model, args.max_length.unwrap_or(positions), engines)?;
        let (folder, template) = (folder.to_owned(), args.template.clone());
        Ok(ModelToServe { names, checkpoint, folder, engine, adapters, reasoning: args.reasoning(), template })
    };
    folders.into_iter().map(&mut load).collect()
}

/// The name of a checkpoint without blanks.
fn own_name(checkpoint: &Path) -> Result<String> {
    let (path, name) = model_name(checkpoint)?;
    let name = name.unwrap_or_else(|| path.display().to_string());
    Ok(name.split_whitespace().collect::<Vec<_>>().join("_"))
}

#[cfg(test)]
mod tests {
    use super::own_name;

    #[test]
    fn model_of_a_run_is_named_after_its_stage() {
        let folder = tempfile::tempdir().unwrap();
        for (path, name) in [("spag-3/model", "spag-3"), ("a b", "a_b")] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            assert_eq!(own_name(&path).unwrap(), name);
        }
        let error = own_name("SomeOwner/Some-1B".as_ref()).unwrap_err().to_string();
        assert!(error.contains("hf download SomeOwner/Some-1B"), "{error}");
    }
}
