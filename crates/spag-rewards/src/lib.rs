//! Credit assignment: judged games of Adversarial Taboo into rewarded samples, and other people's files into training data.
//!
//! Who wins a game has earned 1; how that is shared among the winner's utterances, and how the two roles are balanced,
//! is all this crate decides. It knows no tensors: whoever wants the samples alone depends on nothing heavy.
//!
//! Judge an episode and credit it:
//!
//! ```
//! use spag_game::{Episode, Outcome, PromptSet, Role};
//! use spag_rewards::{CreditConfig, assign_rewards};
//!
//! let mut episode = Episode::new("apple", 5);
//! episode.push(Role::Attacker, "What grows on the tree behind your house?");
//! episode.push(Role::Defender, "I know the word! It is `apple`!");
//! let credited = assign_rewards(&[episode], &PromptSet::default(), &CreditConfig::default())?;
//! assert_eq!(credited.verdicts[0].outcome, Outcome::DefenderWins);
//! assert_eq!((credited.samples.len(), credited.samples[0].reward), (1, 1.0));
//! # Ok::<(), spag_rewards::Error>(())
//! ```

// ── One row of training data, and files of them ──
mod sample;
mod sample_file;

// ── Credit ──
mod assign_files;
mod assign_job;
mod config;
mod credit;
mod decided;
mod each_judged;
mod first_pass;
mod in_order;
mod reward;
mod sample_text;
mod second_pass;
mod summary;

// ── Other people's files ──
mod convert;

// ── What the rest stands on ──
mod error;
mod strip;

pub use assign_files::assign_rewards_in_files;
pub use assign_job::AssignJob;
pub use config::{CreditConfig, RewardNorm};
pub use convert::alpaca::{AlpacaRow, AlpacaTemplate, Demonstration, convert_alpaca};
pub use convert::imitation::convert_imitation;
pub use credit::{Credited, assign_rewards};
pub use error::{Error, Result};
pub use reward::discounted_rewards;
pub use sample::{Sample, SampleKind};
pub use sample_file::{read_samples, write_samples};
pub use summary::{CreditSummary, RoleWeights};
