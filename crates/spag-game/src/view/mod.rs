//! Episodes read for judging and crediting alone: texts stay where they lie in the row, other keys are skipped.

mod scan;
mod text;

pub use text::JsonText;
pub(crate) use text::escaped;

use crate::episode::{Episode, Role};
use crate::error::Result;
use spag_io::Row;

/// One utterance of an [`EpisodeView`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: JsonText<'a>,
}

/// What judging and crediting need of an episode, borrowed from its row in a file.
///
/// A view that is filled again and again keeps its memory. Every view has been checked: its roles alternate and its word
/// is not empty.
///
/// ```
/// use spag_game::{EpisodeView, RowBlocks};
///
/// # fn main() -> spag_game::Result<()> {
/// let text = r#"{"history": [{"role": "attacker", "content": "Say \"ah\"!"}], "target_word": "ah"}"#;
/// for block in RowBlocks::from_reader("in memory", text.as_bytes())? {
///     let block = block?;
///     let mut view = EpisodeView::default();
///     for row in block.rows() {
///         view.fill(row)?;
///         assert_eq!(view.history[0].content.text(), "Say \"ah\"!");
///         assert_eq!(view.history[0].content.json(), r#"Say \"ah\"!"#);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpisodeView<'a> {
    /// The utterances in order, the attacker's first.
    pub history: Vec<Line<'a>>,
    /// The word that only the attacker knows.
    pub target_word: JsonText<'a>,
    /// Turns after which an undecided game is tied.
    pub max_turns: usize,
}

impl<'a> EpisodeView<'a> {
    /// Makes this the view of a row.
    ///
    /// # Errors
    /// A row that is no episode: the error names file, row and cause.
    pub fn fill(&mut self, row: Row<'a>) -> Result<()> {
        // What the quick reader does not know, be it wrong or merely rare, goes the long way, which finds the words for it.
        match scan::scan(row.bytes(), self) {
            Some(()) if self.is_sound() => Ok(()),
            _ => {
                let episode: Episode = row.parse()?;
                episode.check().map_err(|error| row.error(error.to_string()))?;
                self.copy(&episode);
                Ok(())
            }
        }
    }

    /// What [`Episode::check`] asks for.
    fn is_sound(&self) -> bool {
        let in_turn = self.history.iter().enumerate().all(|(index, line)| line.role == Role::at(index));
        in_turn && !self.target_word.text().trim().is_empty()
    }

    fn copy(&mut self, episode: &Episode) {
        let lines = episode.history.iter();
        self.history.clear();
        self.history.extend(lines.map(|u| Line { role: u.role, content: JsonText::of(&u.content) }));
        self.target_word = JsonText::of(&episode.target_word);
        self.max_turns = episode.max_turns;
    }
}
