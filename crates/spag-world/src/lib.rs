//! A small world in which a small model can learn the game: everyday words with true clues, scripted players of mixed
//! skill, and texts. No tensors.
//!
//! ```
//! use spag_world::Lexicon;
//!
//! # fn main() -> spag_world::Result<()> {
//! let lexicon = Lexicon::embedded()?;
//! let word = lexicon.words().next().unwrap_or("");
//! let clues = lexicon.clues(word);
//! // Any three clues of a word single it out.
//! let heard = format!("It {}. It {}. It {}.", clues[0], clues[1], clues[2]);
//! assert_eq!(lexicon.candidates(&heard), [word]);
//! # Ok(())
//! # }
//! ```

// ── What there is ──
mod error;
mod lexicon;
mod truth;

// ── Who plays, and what is said ──
mod players;
mod texts;

// ── What a model learns from and is asked ──
mod documents;
mod probes;

pub use documents::{BaseMix, base_document, general_qa, scripted_game};
pub use error::{Error, Result};
pub use lexicon::{Entry, Lexicon};
pub use players::{ScriptedAttacker, ScriptedDefender, Skills};
pub use probes::{Probe, attacker_clue_probe, naming_probe, qa_probe};
pub use texts::{GUESS_STEM, HEDGES, SMALL_TALK, guess};
pub use truth::{ClueTruth, clue_truth};
