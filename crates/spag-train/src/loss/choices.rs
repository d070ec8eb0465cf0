//! The losses by their names: those of `--train_method`, and those of `[online]`. The functions [`build`](super::build) and
//! [`build_on_policy`](super::build_on_policy) have an arm for each.

use serde::{Deserialize, Serialize};

/// The loss of a training on samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrainMethod {
    /// Cross-entropy over target tokens.
    #[default]
    #[serde(rename = "SFT", alias = "sft")]
    Sft,
    /// Imitation: weighted log-likelihood with a KL term against the reference model.
    #[serde(rename = "SFTwithKL")]
    SftWithKl,
    /// Offline policy optimisation: clipped importance-weighted rewards with a KL term, mixed with SFT data.
    #[serde(rename = "OfflinePO")]
    OfflinePo,
}

/// Where the divergence from the reference model counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlPlace {
    /// k3 of every token is a part of the loss (GRPO).
    #[default]
    Loss,
    /// The sum of k1 over an utterance's tokens is subtracted from its advantage; no gradient flows through it.
    Reward,
    /// The sums of k1 over this utterance and the later ones of its seat are subtracted from its advantage, and those over the later
    /// ones of the other seat are added to it: the rewards of a zero-sum game stay so (R-NaD, Perolat et al. 2022, arXiv 2206.15378).
    ZeroSum,
}

/// The loss of an on-policy run: what importance ratios do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyLoss {
    /// Nothing.
    #[default]
    Reinforce,
    /// They are clipped, as in PPO.
    Ppo,
    /// They are weights up to `ratio_cap`.
    Truncated,
    /// They are weights; tokens beyond `ratio_cap` are left out.
    Masked,
}

/// What the sum over an utterance's tokens is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyLength {
    /// A constant, so that every token counts the same.
    #[default]
    MaxNewTokens,
    /// Its tokens, so that every utterance counts the same.
    Own,
}

spag_io::settings! {
    /// The loss of an on-policy run, among the settings of `[online]`.
    pub table PolicyLossSettings {
        /// `reinforce`, `ppo`, `truncated` or `masked`: what importance ratios do, which differ from 1 on GPUs only.
        pub loss: PolicyLoss;
        /// PPO's clip range below 1.
        pub clip_low: f64 [0.0..=1.0] = 0.2;
        /// PPO's clip range above 1.
        pub clip_high: f64 [0.0..=100.0] = 0.2;
        /// The largest importance ratio of `truncated` and `masked`.
        pub ratio_cap: f64 [1.0..=1e6] = 2.0;
        /// What the sum over an utterance's tokens is divided by: `max_new_tokens`, or `own`, its length.
        pub length: PolicyLength;
        /// Coefficient of the KL divergence from the reference model. With 0 that model is not loaded.
        pub kl_coeff: f64 [0.0..=1e6] = 0.0;
        /// Where the divergence counts: `loss` adds k3 to the loss, `reward` subtracts k1 from advantages, `zero_sum` also adds the
        /// other seat's.
        pub kl_in: KlPlace;
        /// Coefficient of general text in the loss of an update: its mean negative log-likelihood, of as many rows as `[sft]` says.
        pub sft_coeff: f64 [0.0..=1e6] = 0.0;
    }
}
