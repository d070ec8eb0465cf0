//! A small world in which a small model can learn the game: everyday words with true clues, scripted players and
//! training texts. No tensors.
//!
//! ```
//! use spag_world::Lexicon;
//!
//! # fn main() -> spag_world::Result<()> {
//! let lexicon = Lexicon::embedded()?;
//! let word = lexicon.words().next().unwrap_or("");
//! let clues = lexicon.clues(word);
//! // Any three clues of a word identify it.
//! let text = format!("It {}. It {}. It {}.", clues[0], clues[1], clues[2]);
//! assert_eq!(lexicon.candidates(&text), [word]);
//! # Ok(())
//! # }
//! ```

mod documents;
mod english;
mod english_texts;
mod error;
mod lexicon;
mod players;
mod probes;
mod texts;
mod thoughts;
mod voice;
mod wordnet;

pub use documents::{BaseMix, base_document, general_qa};
pub use english::article;
pub use error::{Error, Result};
pub use lexicon::{ClueTruth, Entry, Lexicon, clue_truth};
pub use players::{Guesses, ScriptedAttacker, ScriptedDefender};
pub use probes::{Probe, attacker_clue_probe, naming_probe, qa_probe};
pub use texts::{HEDGES, SMALL_TALK, guess};
pub use thoughts::{THINK_FIRST, Thoughts, listed, what_else_holds, which_has, which_has_not};
pub use wordnet::{LexiconReport, WordChoice, WordNet, write_lexicon};
