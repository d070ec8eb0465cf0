//! The rules: who has won, by text alone.

mod first_word;
mod forms;
mod lower;
mod prediction;
mod referee;
mod referees;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use forms::word_forms;
pub use prediction::is_prediction;
pub use referee::{Referee, judge_episode};
pub use referees::Referees;

use crate::error::{Error, Result};

/// Which rules decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgeKind {
    /// The paper's: a form of the word anywhere in the text counts, also inside other words ("art" in "start").
    #[default]
    Paper,
    /// A form counts only where it stands as a word of its own.
    WholeWord,
}

impl FromStr for JudgeKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "paper" => Ok(Self::Paper),
            "whole-word" | "whole_word" => Ok(Self::WholeWord),
            other => Err(Error::UnknownJudge { name: other.to_owned() }),
        }
    }
}

impl fmt::Display for JudgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paper => "paper",
            Self::WholeWord => "whole-word",
        })
    }
}
