//! Few-shot examples.

use std::path::Path;

use crate::config::{FewShotConfig, ShotOrder};
use crate::error::{Error, Result};
use crate::python_random::PythonRandom;
use crate::rows::Row;

/// Draws the examples of each row of a task, in the order of the rows.
pub(crate) struct FewShot {
    number: usize,
    order: ShotOrder,
    random: PythonRandom,
    pool: Vec<Row>,
    /// Whether the pool is the task's own data, of which a row must not be its own example.
    own: bool,
}

impl FewShot {
    /// `own` is whether `pool`, read from `path`, is the task's own data.
    pub(crate) fn new(config: &FewShotConfig, path: &Path, pool: Vec<Row>, own: bool) -> Result<Self> {
        let needed = config.number + usize::from(own);
        if pool.len() < needed {
            let reason =
                format!("there are {} rows, and {} few-shot examples need {needed}", pool.len(), config.number);
            return Err(Error::tasks(path, reason));
        }
        let random = PythonRandom::new(config.seed);
        Ok(Self { number: config.number, order: config.order, random, pool, own })
    }

    /// The rows that may become examples.
    pub(crate) fn pool(&self) -> &[Row] {
        &self.pool
    }

    /// The examples of the next row, as indices into the pool. Rows that equal it are no examples.
    pub(crate) fn draw(&mut self, row: &Row) -> Vec<usize> {
        let is_other = |at: &usize| !self.own || self.pool[*at].fields != row.fields;
        let mut drawn: Vec<usize> = match self.order {
            ShotOrder::First => (0..self.pool.len()).filter(is_other).take(self.number).collect(),
            ShotOrder::Random => {
                let drawn = self.random.sample(self.pool.len(), self.number + usize::from(self.own));
                drawn.into_iter().filter(is_other).collect()
            }
        };
        if drawn.len() < self.number && self.order == ShotOrder::Random {
            // Several rows equal this one. lm-evaluation-harness draws again, without them.
            let others: Vec<usize> = (0..self.pool.len()).filter(is_other).collect();
            drawn = self.random.sample(others.len(), self.number).into_iter().map(|at| others[at]).collect();
        }
        drawn.truncate(self.number);
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(texts: &[&str]) -> Vec<Row> {
        let fields = |text: &str| serde_json::json!({"q": text}).as_object().unwrap().clone();
        texts.iter().enumerate().map(|(i, text)| Row { number: i + 1, fields: fields(text) }).collect()
    }

    #[test]
    fn row_is_never_its_own_example() {
        let pool = rows(&["a", "b", "c", "a", "d"]);
        for order in [ShotOrder::First, ShotOrder::Random] {
            let config = FewShotConfig { number: 2, order, ..FewShotConfig::default() };
            let mut shots = FewShot::new(&config, Path::new("x"), pool.clone(), true).unwrap();
            for row in &pool {
                let drawn = shots.draw(row);
                assert_eq!(drawn.len(), 2);
                assert!(drawn.iter().all(|at| pool[*at].fields != row.fields), "{drawn:?}");
            }
        }
    }

    #[test]
    fn too_few_rows_are_an_error() {
        let config = FewShotConfig { number: 3, ..FewShotConfig::default() };
        let error = FewShot::new(&config, Path::new("x.jsonl"), rows(&["a", "b", "c"]), true).err().unwrap();
        assert!(error.to_string().contains("x.jsonl: there are 3 rows, and 3 few-shot examples need 4"), "{error}");
    }
}
