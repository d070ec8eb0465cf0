//! The rules of credit by their names, as flags and configurations have them.

use serde::{Deserialize, Serialize};

use super::{Credit, DecayedWinner, DrawnWinner, SignedSeats};
use crate::RewardNorm;

/// Which utterances of games become samples. A new rule is a file beside this one, a variant here and its arm in
/// [`CreditRule::build`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CreditRule {
    /// The winner's: [`DecayedWinner`].
    #[default]
    Winner,
    /// Both players': [`SignedSeats`].
    Signed,
    /// Those of a player that is drawn, as a control: [`DrawnWinner`].
    Drawn,
}

impl CreditRule {
    /// The rule, whose rewards fall by `decay_weight` for each utterance before the last one and have the scale `norm`. `seed` is that of
    /// what is drawn.
    pub fn build(self, decay_weight: f64, norm: RewardNorm, seed: u64) -> Box<dyn Credit> {
        match self {
            Self::Winner => Box::new(DecayedWinner { decay_weight, norm }),
            Self::Signed => Box::new(SignedSeats { decay_weight, norm }),
            Self::Drawn => Box::new(DrawnWinner { rule: DecayedWinner { decay_weight, norm }, seed }),
        }
    }
}

spag_io::named_choices!(CreditRule);
