//! The file of games that could not be played to their end.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::note;
use crate::driver::FailedGame;
use crate::episode::Episode;
use crate::error::Result;
use spag_io::JsonlAppender;

/// Failed games beside the record of finished ones; the file is there once there is one.
#[derive(Debug)]
pub(super) struct FailedGames {
    path: PathBuf,
    lines: Option<JsonlAppender<Episode>>,
}

impl FailedGames {
    /// The file of the record at `record`.
    pub(super) fn beside(record: &Path) -> Self {
        let mut name = record.file_stem().unwrap_or_default().to_owned();
        name.push("_failed.jsonl");
        Self { path: record.with_file_name(name), lines: None }
    }

    /// Removes what an earlier run left in the file: its games are played again.
    pub(super) fn forget(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(spag_io::Error::Io { path: self.path.clone(), source }.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends what was said so far, whose turn it was, and why it got no utterance.
    pub(super) fn add(&mut self, failed: FailedGame, players: &str) -> Result<()> {
        let mut episode = failed.episode;
        note(&mut episode, failed.game, failed.seed, players);
        episode.extra.insert("role".into(), Value::from(failed.role.to_string()));
        episode.extra.insert("reason".into(), Value::from(failed.failure.to_string()));
        let lines = match &mut self.lines {
            Some(lines) => lines,
            none => none.insert(JsonlAppender::create(&self.path)?),
        };
        Ok(lines.append(&episode)?)
    }
}
