//! Classifies the contents of a folder by file names.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, Result};

/// A kind of folder contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A model, an adapter or a tokenizer.
    Model,
    /// A training run: metrics and checkpoints.
    Training,
    /// A run of the whole loop, or a stage of one.
    Run,
    /// Results of benchmarks.
    Benchmarks,
    /// Records and results of games.
    Games,
}

impl Contents {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Model, Self::Training, Self::Run, Self::Benchmarks, Self::Games];

    /// File name patterns that identify the kind. `*` matches any characters.
    const fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Model => &[
                "*.safetensors",
                "*.safetensors.index.json",
                "*.gguf",
                "pytorch_model*",
                "adapter_model*",
                "adapter_config.json",
                "config.json",
                "tokenizer.json",
                "tokenizer.model",
            ],
            Self::Training => &["checkpoint-*", "train_config.json"],
            Self::Run => &["config.resolved.toml", "stages.json", "done.json"],
            Self::Benchmarks => &["record_*.jsonl", "results.json", "games.json"],
            Self::Games => &["*_rank*.jsonl", "*_vs_*.jsonl", "arena.json"],
        }
    }

    /// Patterns of further files of this kind, which do not identify it.
    const fn further(self) -> &'static [&'static str] {
        match self {
            Self::Model => &[
                "*_config.json",
                "*.py",
                "added_tokens.json",
                "special_tokens_map.json",
                "chat_template*",
                "vocab.*",
                "merges.txt",
                "base_metrics.jsonl",
                "base_report.json",
                "spag-*.json",
            ],
            Self::Training => &["metrics.jsonl", "deepspeed_config.json", "ref_log_probs", "trainer_state"],
            Self::Run => &[
                "inputs.json",
                "metrics.jsonl",
                "report.*",
                "words.txt",
                "held-out-words.txt",
                "episodes*.jsonl*",
                "samples*.json*",
                "sources.json",
                "base",
                "im",
                "spag-*",
                "eval",
                "benchmarks",
            ],
            Self::Benchmarks => &["report.html"],
            Self::Games => &["*_results.json*", "*_summary.json", "*_failed.jsonl", "arena.csv"],
        }
    }

    /// Whether a file or folder of this name belongs to this kind.
    pub fn has(self, name: &str) -> bool {
        self.marks().iter().chain(self.further()).any(|pattern| fits(name, pattern))
    }

    /// The kinds found in the folder at `path`, each with the names that identify it. Empty if there is no such folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn of(path: &Path) -> Result<Vec<(Self, String)>> {
        let io = Error::io(path);
        let entries = match fs::read_dir(path) {
            // Creating the folder reports this error.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            entries => entries.map_err(io)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(io)?.file_name().to_string_lossy().into_owned());
        }
        // Sorted, so that the message is deterministic.
        names.sort();
        let marks = |kind: Self| {
            let is_mark = move |name: &&String| kind.marks().iter().any(|pattern| fits(name, pattern));
            names.iter().filter(is_mark).map(move |name| (kind, name.clone()))
        };
        Ok(Self::ALL.into_iter().flat_map(marks).collect())
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "a model",
            Self::Training => "a training run",
            Self::Run => "a run",
            Self::Benchmarks => "results of benchmarks",
            Self::Games => "games",
        })
    }
}

/// Whether a name matches a pattern, in which `*` matches any characters.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(name) = name.strip_prefix(prefix) else { return false };
    let starts = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    starts.into_iter().any(|at| fits(&name[at..], rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_stars() {
        for (name, pattern, expected) in [
            ("a", "a", true),
            ("ab", "a", false),
            ("model-00001-of-2.safetensors", "*.safetensors", true),
            (".safetensors", "*.safetensors", true),
            ("x_rank0.jsonl", "*_rank*.jsonl", true),
            ("x_rank0.json", "*_rank*.jsonl", false),
            ("é_vs_é.jsonl", "*_vs_*.jsonl", true),
            ("checkpoint-7", "checkpoint-*", true),
            ("", "*", true),
        ] {
            assert_eq!(fits(name, pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn folders_are_recognised() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Contents::of(&folder.path().join("absent")).unwrap(), []);
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        fs::write(folder.path().join("samples.json"), "").unwrap();
        assert_eq!(Contents::of(folder.path()).unwrap(), []);
        for name in ["model.safetensors", "done.json", "A_vs_B.jsonl"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = Contents::of(folder.path()).unwrap();
        let expected = [(Contents::Model, "model.safetensors"), (Contents::Run, "done.json")];
        let expected = expected.into_iter().chain([(Contents::Games, "A_vs_B.jsonl")]);
        assert_eq!(found, expected.map(|(kind, name)| (kind, name.to_owned())).collect::<Vec<_>>());
    }
}
