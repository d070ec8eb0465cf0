//! The report: a table, and the same as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The part: `kernels`, `parity`, `ceilings`, …
    pub part: String,
    /// The subject of the check or measurement.
    pub what: String,
    /// The result as text.
    pub result: String,
    /// The result as numbers.
    pub numbers: serde_json::Value,
    /// Whether the check passed; absent for measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
}

/// All rows, in order of execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The GPU and its driver.
    pub device: String,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Report {
    /// Adds a row and prints it at once, so that an interrupted run shows its results.
    pub fn add(&mut self, row: Row) {
        println!("{row}");
        self.rows.push(row);
    }

    /// Number of failed checks.
    pub fn failed(&self) -> usize {
        self.rows.iter().filter(|row| row.passed == Some(false)).count()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.passed {
            Some(true) => "ok",
            Some(false) => "FAILED",
            None => "",
        };
        write!(f, "{:<10} {:<58} {:<6} {}", self.part, self.what, mark, self.result)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.device)?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))?;
        let checks = self.rows.iter().filter(|row| row.passed.is_some()).count();
        write!(f, "{} of {checks} checks passed", checks - self.failed())
    }
}
