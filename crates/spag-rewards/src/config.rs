//! Settings of credit assignment.

use std::ops::RangeInclusive;

use crate::{Credit, CreditRule, Error, Result, RewardNorm, SampleReasoning};

spag_io::settings! {
    /// Settings of [`assign_rewards`](crate::assign_rewards). The defaults are the paper's: the winner's utterances, γ = 0.8, rewards
    /// that sum to 1.
    pub table CreditConfig {
        /// γ > 0: an utterance's reward is γ times that of the seat's next one.
        pub decay_weight: f64 [CreditConfig::DECAY_WEIGHT] = 0.8;
        /// The scale of a seat's rewards.
        pub norm as "reward_norm": RewardNorm;
        /// Which utterances become samples.
        pub credit: CreditRule;
        /// Seed for drawing the wordings of queries, and the winners of the rule `drawn`.
        pub seed: u64;
    } + {
        /// The reasoning of utterances.
        pub reasoning: SampleReasoning;
    }
}

impl CreditConfig {
    /// Valid decay weights; the rewards of games of any length are finite.
    pub const DECAY_WEIGHT: RangeInclusive<f64> = 0.000_001..=1e6;

    /// The rule of credit.
    pub fn rule(&self) -> Box<dyn Credit> {
        self.credit.build(self.decay_weight, self.norm, self.seed)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let given = self.decay_weight;
        if Self::DECAY_WEIGHT.contains(&given) { Ok(()) } else { Err(Error::DecayWeight { given }) }
    }
}
