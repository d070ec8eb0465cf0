//! `metrics.jsonl`.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use spag_io::{JsonlAppender, write_jsonl_atomically};

use crate::error::Result;

/// Appends to `metrics.jsonl` in the output folder of a run.
#[derive(Debug)]
pub(crate) struct MetricsLog {
    lines: JsonlAppender<Value>,
}

impl MetricsLog {
    /// Starts the file if `step` is 0. Else resumes it after `step` steps and drops the lines of later steps, which are
    /// taken again.
    pub(crate) fn open(dir: &Path, step: usize) -> Result<Self> {
        let path = dir.join("metrics.jsonl");
        if step == 0 {
            return Ok(Self { lines: JsonlAppender::create(path)? });
        }
        let (lines, mut rows) = JsonlAppender::<Value>::resume(&path)?;
        let count = rows.len();
        rows.retain(|row| row.get("step").and_then(Value::as_u64).is_some_and(|at| at <= step as u64));
        if rows.len() == count {
            return Ok(Self { lines });
        }
        write_jsonl_atomically(&path, &rows)?;
        Ok(Self { lines: JsonlAppender::resume(&path)?.0 })
    }

    /// Appends one line, which has reached the operating system when this returns.
    pub(crate) fn append(&mut self, line: &impl Serialize) -> Result<()> {
        // Numbers and names always serialize.
        Ok(self.lines.append(&serde_json::to_value(line).unwrap_or_default())?)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.lines.sync()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resume_drops_a_torn_line_and_lines_of_later_steps() {
        let dir = tempfile::tempdir().unwrap();
        let line = |step: usize| serde_json::json!({"step": step, "loss": step as f64 / 3.0});
        let mut log = MetricsLog::open(dir.path(), 0).unwrap();
        (1..=5).for_each(|step| log.append(&line(step)).unwrap());
        drop(log);
        let path = dir.path().join("metrics.jsonl");
        // A kill tore the last line.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 4]).unwrap();
        let mut log = MetricsLog::open(dir.path(), 3).unwrap();
        log.append(&line(4)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let steps: Vec<Value> =
            text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["step"].clone()).collect();
        assert_eq!(steps, [1, 2, 3, 4]);
        // One run at a time; a new run truncates the file.
        assert!(MetricsLog::open(dir.path(), 0).is_err());
        drop(log);
        MetricsLog::open(dir.path(), 0).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}
