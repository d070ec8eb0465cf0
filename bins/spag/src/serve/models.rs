//! The checkpoints of `spag serve` and their names.

use std::path::{Path, PathBuf};

use spag_cli::{Error, Result};
use spag_serve::ModelToServe;

use super::ServeArgs;
use crate::model_name::model_name;

/// `NAME=DIR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFolder {
    name: String,
    folder: PathBuf,
}

/// Parses `NAME=DIR`.
pub(super) fn named_folder(text: &str) -> Result<NamedFolder, String> {
    match text.split_once('=') {
        Some((name, folder)) if !name.is_empty() && !folder.is_empty() => {
            Ok(NamedFolder { name: name.to_owned(), folder: folder.into() })
        }
        _ => Err("expected NAME=DIR".into()),
    }
}

/// Loads all checkpoints.
pub(super) fn load(args: &ServeArgs) -> Result<Vec<ModelToServe>> {
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
    let engines = folders.len();
    let load = |(names, folder): (Vec<String>, &Path)| {
        let checkpoint = args.loading.load(folder)?;
        let positions = checkpoint.model.config().architecture.max_position_embeddings;
        if let Some(asked) = args.max_length.filter(|asked| *asked > positions) {
            let problem = format!("{} has {positions} positions; ask for no more", folder.display());
            return Err(Error::BadValue { flag: format!("--max_length {asked}"), problem });
        }
        let engine = args.engine.for_model(&checkpoint.model, args.max_length.unwrap_or(positions), engines)?;
        Ok(ModelToServe { names, checkpoint, engine })
    };
    folders.into_iter().map(load).collect()
}

/// The name of a checkpoint without blanks.
fn own_name(checkpoint: &Path) -> Result<String> {
    let (path, name) = model_name(checkpoint)?;
    let name = name.unwrap_or_else(|| path.display().to_string());
    Ok(name.split_whitespace().collect::<Vec<_>>().join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_equals_sign() {
        let read = named_folder("attacker=models/a=b").unwrap();
        assert_eq!(read, NamedFolder { name: "attacker".into(), folder: "models/a=b".into() });
        assert!(["", "models/a", "=models/a", "attacker="].iter().all(|text| named_folder(text).is_err()));
    }
}
