//! From a file to settings.

use std::{fs, path::Path};

use serde_json::Value;

use super::{
    DeepSpeed, DeepSpeedError, Flags, Problem, checks, json, keys,
    reader::{Reader, shown},
    resolve,
};

impl DeepSpeed {
    /// Reads `path`, fills `"auto"` from `flags` and checks the rest against them.
    ///
    /// # Errors
    /// A file that cannot be read or is not JSON, and all problems of its settings together.
    pub fn load(path: &Path, flags: &Flags) -> Result<Self, DeepSpeedError> {
        let text = fs::read_to_string(path).map_err(|source| DeepSpeedError::Read { path: path.to_owned(), source })?;
        let root = json::parse(&text).map_err(|source| DeepSpeedError::Json { path: path.to_owned(), source })?;
        Self::resolve(&root, flags).map_err(|problems| DeepSpeedError::Problems { path: path.to_owned(), problems })
    }

    /// [`DeepSpeed::load`] for settings that are no file of their own.
    ///
    /// # Errors
    /// All problems, at least one.
    pub fn resolve(root: &Value, flags: &Flags) -> Result<Self, Vec<Problem>> {
        let Some(object) = root.as_object() else {
            let key = "the file".to_owned();
            return Err(vec![Problem::Invalid { key, expected: "a JSON object", value: shown(root) }]);
        };
        let mut reader = Reader::new(root, keys::check(object));
        checks::check(&mut reader, flags);
        let settings = resolve::resolve(&mut reader, flags);
        let problems = reader.into_problems();
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }
}
