//! What a whole check says at its end: one table, and the same as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The part of the check: `kernels`, `parity`, `ceilings`, …
    pub part: String,
    /// What was checked or measured.
    pub what: String,
    /// What came of it, in words for people.
    pub result: String,
    /// The numbers behind it.
    pub numbers: serde_json::Value,
    /// Whether it is as it should be; absent for measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
}

/// All rows, in the order of the check.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The GPU and its driver.
    pub device: String,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Report {
    /// Adds a row and prints it, so that a check which is cut off has said what it knew.
    pub fn add(&mut self, row: Row) {
        println!("{row}");
        self.rows.push(row);
    }

    /// Rows that are not as they should be.
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
