//! What a program has to tell, as data: a page draws it, and a text can have the same tables.

mod chart;
mod page;

use serde::{Deserialize, Serialize};

pub use chart::{Chart, Look, Series};
pub use page::{MODULES, STYLE};

/// A report, a comparison or an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// What it is about, in a line.
    pub about: String,
    /// What qualifies all numbers, a sentence each.
    pub notes: Vec<String>,
    /// Its sections, in order.
    pub sections: Vec<Section>,
    /// A sentence for readers without JavaScript: where the same numbers are.
    #[serde(skip)]
    pub without_script: &'static str,
}

/// A section of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Its heading; the first one may have none.
    pub heading: String,
    /// What it consists of, in order.
    pub parts: Vec<Part>,
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The heading of the parts that follow.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// The most important numbers.
    Tiles(Vec<Tile>),
    /// Charts beside each other.
    Charts(Vec<Chart>),
    /// A table.
    Table(Table),
    /// A table that is shown when it is asked for.
    Folded(Table),
    /// Games beside each other.
    Games(ShownGames),
}

/// An important number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tile {
    /// The number with its unit.
    pub number: String,
    /// What it is.
    pub meaning: String,
}

/// A table. The first cell of a row is its heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The headings of its columns.
    pub columns: Vec<String>,
    /// Its cells.
    pub rows: Vec<Vec<String>>,
}

/// Games that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownGames {
    /// What they are about; empty if the seed alone deals them.
    pub title: String,
    /// The games.
    pub games: Vec<Conversation>,
}

/// What was said in a game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// Who has which seat.
    pub players: String,
    /// The utterances, in order.
    pub said: Vec<Said>,
    /// How it ended.
    pub ending: String,
}

/// An utterance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The seat of the speaker.
    pub seat: String,
    /// The speaker.
    pub player: String,
    /// The text.
    pub text: String,
    /// What is wrong with it; empty if nothing is known to be.
    pub note: String,
}

impl Section {
    /// A section, if it has parts.
    pub fn of(heading: impl Into<String>, parts: Vec<Part>) -> Option<Self> {
        (!parts.is_empty()).then(|| Self { heading: heading.into(), parts })
    }
}

impl Table {
    /// A table.
    pub fn new(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        Self { title: title.into(), columns: columns.into_iter().map(Into::into).collect(), rows }
    }

    /// The table, if it has rows.
    pub fn filled(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }
}
