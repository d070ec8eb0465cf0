//! The curves of a stage's training: every number of its `metrics.jsonl`.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::alarms::UpdateMeasures;
use crate::follow::{Follower, Found, Line};
use crate::thinned::Thinned;

/// Curves of a stage: an update of an on-policy run has some thirty, and a dozen of each of its games.
const MOST: usize = 160;
/// Bytes of a curve's name.
const NAME: usize = 64;

/// The curves of a stage.
#[derive(Debug)]
pub struct Curves {
    follower: Follower,
    curves: BTreeMap<String, Thinned<[f64; 2]>>,
    /// Changes with the curves.
    version: u64,
    /// The last line about training.
    last: Map<String, Value>,
    unreadable: usize,
}

impl Curves {
    /// The curves of a file of metrics, of which nothing has been read.
    pub fn new(follower: Follower) -> Self {
        Self { follower, curves: BTreeMap::new(), version: 0, last: Map::new(), unreadable: 0 }
    }

    /// Reads new lines.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn update(&mut self, deadline: Instant) -> io::Result<Found> {
        let mut follower = self.follower.clone();
        let mut found = follower.read(deadline, |line| self.add(&line));
        if matches!(found, Ok(Found::Restarted)) {
            follower.restart();
            *self = Self { version: self.version + 1, ..Self::new(follower.clone()) };
            found = follower.read(deadline, |line| self.add(&line));
        }
        self.follower = follower;
        found
    }

    fn add(&mut self, line: &Line<'_>) {
        let row = match line {
            Line::Whole(text, _) if text.trim_ascii().is_empty() => return,
            Line::Whole(text, _) => serde_json::from_slice::<Map<String, Value>>(text).ok(),
            Line::TooLong => None,
        };
        let step = |row: &Map<String, Value>| row.get("step").and_then(Value::as_f64);
        let Some((step, row)) = row.and_then(|row| Some((step(&row)?, row))) else {
            self.unreadable += 1;
            return;
        };
        self.version += 1;
        let numbers = row.iter().filter(|(name, _)| *name != "step" && name.len() <= NAME);
        for (name, value) in numbers.filter_map(|(name, value)| Some((name, value.as_f64()?))) {
            if self.curves.len() < MOST || self.curves.contains_key(name) {
                self.curves.entry(name.clone()).or_default().add([step, value]);
            }
        }
        if row.contains_key("loss") {
            self.last = row;
        }
    }

    /// A number of the last line about training.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.last.get(name)?.as_f64()
    }

    /// What changes with the curves; `None` if there are none.
    pub fn version(&self) -> Option<u64> {
        (!self.curves.is_empty()).then_some(self.version)
    }

    /// Adds the curves to the measures of a run's updates, if they are of updates.
    pub fn add_updates(&self, measures: &mut UpdateMeasures) {
        if !self.curves.contains_key("update") {
            return;
        }
        for (name, curve) in &self.curves {
            // A step of an on-policy run is an update.
            curve.iter().for_each(|[step, value]| measures.add(name, *step as u64, *value));
        }
    }

    /// All curves by name, as lists of [step, value].
    pub fn json(&self) -> Value {
        let points = |curve: &Thinned<[f64; 2]>| json!(curve.iter().collect::<Vec<_>>());
        let curves: Map<String, Value> =
            self.curves.iter().map(|(name, curve)| (name.clone(), points(curve))).collect();
        json!({"version": self.version, "curves": curves, "unreadable": self.unreadable})
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use spag_io::EnclosedFolder;

    use super::*;
    use crate::thinned::KEPT;

    fn update(curves: &mut Curves) -> Value {
        curves.update(Instant::now() + Duration::from_secs(60)).unwrap();
        curves.json()
    }

    #[test]
    fn numbers_become_curves_and_other_lines_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut curves = Curves::new(Follower::new(&EnclosedFolder::new(folder.path()), "metrics.jsonl"));
        assert_eq!((update(&mut curves)["curves"].clone(), curves.version()), (json!({}), None));
        let lines = [
            r#"{"step": 1, "loss": 2.5, "kl": null, "note": "<b>"}"#,
            r#"{"step": 2, "loss": 2.0, "kl": 0.1}"#,
            r#"{"step": 2, "eval_loss": 3.0}"#,
            r#"{"loss": 1}"#,
            "nonsense",
            r#"{"step": 3, "lo"#,
        ];
        fs::write(&path, lines.join("\n")).unwrap();
        let read = update(&mut curves);
        let want = json!({"loss": [[1.0, 2.5], [2.0, 2.0]], "kl": [[2.0, 0.1]], "eval_loss": [[2.0, 3.0]]});
        assert_eq!((&read["curves"], &read["unreadable"]), (&want, &json!(2)));
        assert_eq!((curves.last("loss"), curves.last("kl"), curves.last("x")), (Some(2.0), Some(0.1), None));
        // A resumed training writes the file anew, without the steps that it takes again.
        let version = curves.version();
        fs::write(folder.path().join("new"), "{\"step\": 1, \"loss\": 2.5}\n").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(update(&mut curves)["curves"], json!({"loss": [[1.0, 2.5]]}));
        assert!(curves.version() > version);
    }

    #[test]
    fn curves_of_updates_alone_are_measures_of_updates() {
        let folder = tempfile::tempdir().unwrap();
        for (update, alarms) in [("", 0), (r#", "update": 1"#, 1)] {
            fs::write(folder.path().join("metrics.jsonl"), format!("{{\"step\": 1, \"ties\": 1{update}}}\n")).unwrap();
            let mut curves = Curves::new(Follower::new(&EnclosedFolder::new(folder.path()), "metrics.jsonl"));
            self::update(&mut curves);
            let mut measures = UpdateMeasures::default();
            curves.add_updates(&mut measures);
            assert_eq!(measures.alarms().len(), alarms, "{update}");
        }
    }

    #[test]
    fn long_curves_keep_their_ends_and_a_bounded_number_of_points() {
        let mut curve = Thinned::default();
        (0..100_001).for_each(|step| curve.add([f64::from(step), 1.0]));
        let points: Vec<_> = curve.iter().collect();
        assert!((KEPT..=2 * KEPT).contains(&points.len()), "{}", points.len());
        assert_eq!((points[0][0], points[points.len() - 1][0]), (0.0, 100_000.0));
        assert!(points.windows(2).all(|pair| pair[0][0] < pair[1][0]));
    }
}
