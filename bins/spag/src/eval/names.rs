//! The names of checkpoints in results.

use std::path::{Path, PathBuf};

use spag_cli::{Error, Result};

use crate::model_name::model_name;

/// The names given, or those of the checkpoints.
pub(super) fn of(folders: &[PathBuf], given: &[String]) -> Result<Vec<String>> {
    if given.is_empty() {
        return folders.iter().map(|folder| own_name(folder)).collect();
    }
    if given.len() != folders.len() {
        let problem = format!("there are {} checkpoints and {} names; give one each", folders.len(), given.len());
        return Err(Error::BadValue { flag: "--names".into(), problem });
    }
    Ok(given.to_vec())
}

/// The name of a checkpoint. Characters that do not fit become `_`.
fn own_name(checkpoint: &Path) -> Result<String> {
    let name = model_name(checkpoint)?.1.unwrap_or_else(|| "model".into());
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fitting: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    Ok(fitting.trim_start_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_a_run_are_named_after_their_stages() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let folders = [make("im/model"), make("spag-1/model"), make("a model")];
        assert_eq!(of(&folders, &[]).unwrap(), ["im", "spag-1", "a_model"]);
        assert!(of(&folders, &["x".into()]).is_err());
        assert_eq!(of(&folders[..1], &["x".into()]).unwrap(), ["x"]);
        let file = folder.path().join("Small-Q4_1.gguf");
        std::fs::write(&file, "").unwrap();
        assert_eq!(of(&[file], &[]).unwrap(), ["Small-Q4_1"]);
    }
}
