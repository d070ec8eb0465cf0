//! The answers of a model to the rows of a task, appended as they come.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spag_game::ReasoningEnd;
use spag_io::JsonlAppender;

use crate::error::{Error, Result};

/// What the answers depend on. A record of others is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    /// The fingerprint of the model.
    pub(crate) model: String,
    /// SHA-256 of the task's settings.
    pub(crate) settings: String,
    /// SHA-256 of each row's question, the first digits.
    pub(crate) rows: Vec<String>,
    /// The most tokens that the model sees.
    pub(crate) max_length: usize,
    /// Whether texts begin with BOS; as the tokenizer's files say if absent.
    #[serde(default)]
    pub(crate) bos: Option<bool>,
    /// What of an answer is reasoning; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<String>,
    /// The number format of the weights and the device.
    pub(crate) arithmetic: String,
}

/// The answer to a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    /// The row, from 0.
    pub(crate) row: usize,
    /// The sample of a row that has several, from 0.
    #[serde(default, skip_serializing_if = "spag_io::is_default")]
    pub(crate) sample: usize,
    /// ln p of what was scored, and whether the model would generate it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) scores: Vec<(f64, bool)>,
    /// What was generated, without reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The reasoning before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<String>,
    /// How the reasoning ended, if not by the model's closing tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_end: Option<ReasoningEnd>,
    /// Whether a prompt lost its beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cut: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "the header of a record, or the answer to a row")]
enum Line {
    Made(Box<Made>),
    Answered(Answered),
}

/// An open record, locked until it is dropped.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
    file: JsonlAppender<Line>,
    /// Of each row its samples.
    answers: Vec<Option<Answered>>,
    samples: usize,
}

impl Record {
    /// Opens or creates a record of rows with so many samples each.
    ///
    /// # Errors
    /// The file cannot be read or written, another process writes to it, or it is of another model, task or data.
    pub(crate) fn open(path: &Path, made: &Made, samples: usize) -> Result<Self> {
        let rows = made.rows.len();
        let (mut file, lines) = JsonlAppender::resume(path)?;
        let mut answers = vec![None; rows * samples];
        let mut lines = lines.into_iter();
        match lines.next() {
            None => file.append(&Line::Made(Box::new(made.clone())))?,
            Some(Line::Made(was)) => compare(path, &was, made)?,
            Some(Line::Answered(_)) => {
                return Err(Error::Damaged { path: path.to_owned(), reason: "its first line is not a header".into() });
            }
        }
        for line in lines {
            match line {
                // A row beyond the limit of this run.
                Line::Answered(answered) if answered.row < rows && answered.sample < samples => {
                    let at = answered.row * samples + answered.sample;
                    answers[at] = Some(answered);
                }
                Line::Answered(_) => {}
                Line::Made(_) => {
                    return Err(Error::Damaged { path: path.to_owned(), reason: "it has two headers".into() });
                }
            }
        }
        Ok(Self { path: path.to_owned(), file, answers, samples })
    }

    /// The rows and samples without an answer, in order.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (usize, usize)> {
        let places = self.answers.iter().enumerate().filter(|(_, answer)| answer.is_none());
        places.map(|(at, _)| (at / self.samples, at % self.samples))
    }

    /// Appends an answer.
    pub(crate) fn add(&mut self, answered: Answered) -> Result<()> {
        let line = Line::Answered(answered);
        self.file.append(&line)?;
        if let Line::Answered(answered) = line {
            let at = answered.row * self.samples + answered.sample;
            if let Some(place) = self.answers.get_mut(at) {
                *place = Some(answered);
            }
        }
        Ok(())
    }

    /// Syncs the record and returns all answers in the order of the rows.
    pub(crate) fn finish(self) -> Result<Vec<Answered>> {
        self.file.sync()?;
        let complete: Option<Vec<Answered>> = self.answers.into_iter().collect();
        complete.ok_or_else(|| Error::Damaged { path: self.path, reason: "a row has no answer".into() })
    }
}

fn compare(path: &Path, was: &Made, now: &Made) -> Result<()> {
    let differs = |what, was: &str, now: &str| {
        Err(Error::Differs { path: path.to_owned(), what, was: short(was), now: short(now) })
    };
    if was.model != now.model {
        return differs("model", &was.model, &now.model);
    }
    if was.settings != now.settings {
        return differs("task", &was.settings, &now.settings);
    }
    if was.arithmetic != now.arithmetic {
        return differs("number format or device", &was.arithmetic, &now.arithmetic);
    }
    if was.max_length != now.max_length {
        return differs("max_length", &was.max_length.to_string(), &now.max_length.to_string());
    }
    if was.bos != now.bos {
        let named = |bos: Option<bool>| bos.map_or("the tokenizer's".to_owned(), |bos| bos.to_string());
        return differs("use of BOS", &named(was.bos), &named(now.bos));
    }
    if was.reasoning != now.reasoning {
        let named = |reasoning: &Option<String>| reasoning.clone().unwrap_or_else(|| "none".to_owned());
        return differs("reasoning", &named(&was.reasoning), &named(&now.reasoning));
    }
    // Another limit leaves the common rows as they are.
    match was.rows.iter().zip(&now.rows).position(|(was, now)| was != now) {
        Some(at) => differs("data set", &format!("row {} {}", at + 1, was.rows[at]), &now.rows[at]),
        None => Ok(()),
    }
}

fn short(text: &str) -> String {
    text.chars().take(28).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Made {
        Made {
            model: "m".into(),
            settings: "s".into(),
            rows: vec!["a".into(), "b".into(), "c".into()],
            max_length: 8,
            bos: Some(true),
            reasoning: None,
            arithmetic: "f32".into(),
        }
    }

    #[test]
    fn torn_line_is_dropped_and_other_rows_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let mut record = Record::open(&path, &made(), 1).unwrap();
        record.add(Answered { row: 2, scores: vec![(-1.5, true)], ..Answered::default() }).unwrap();
        drop(record);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"row\":0,\"sco");
        std::fs::write(&path, text).unwrap();
        let record = Record::open(&path, &made(), 1).unwrap();
        assert_eq!(record.missing().collect::<Vec<_>>(), [(0, 0), (1, 0)]);
        drop(record);
        let fewer = Made { rows: made().rows[..2].to_vec(), ..made() };
        assert_eq!(Record::open(&path, &fewer, 1).unwrap().missing().count(), 2);
    }

    #[test]
    fn records_of_other_models_tasks_and_data_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        drop(Record::open(&path, &made(), 1).unwrap());
        for (other, said) in [
            (Made { model: "n".into(), ..made() }, "another model"),
            (Made { settings: "t".into(), ..made() }, "another task"),
            (Made { rows: vec!["a".into(), "x".into()], ..made() }, "another data set (row 2 b, now x)"),
            (Made { max_length: 9, ..made() }, "another max_length"),
            (Made { bos: None, ..made() }, "another use of BOS"),
            (Made { arithmetic: "bf16".into(), ..made() }, "another number format"),
            (Made { reasoning: Some("boxed".into()), ..made() }, "another reasoning (none, now boxed)"),
        ] {
            let error = Record::open(&path, &other, 1).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("r.jsonl"), "{error}");
        }
        std::fs::write(&path, "{\"row\":0}\n").unwrap();
        assert!(Record::open(&path, &made(), 1).unwrap_err().to_string().contains("header"));
    }
}
