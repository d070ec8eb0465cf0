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

/// Where the divergence from the model of the imitation counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KlPlace {
    /// k3 of every token is a part of the loss (GRPO).
    #[default]
    Loss,
    /// The sum of k1 over an utterance's tokens is subtracted from its advantage; no gradient flows through it.
    Reward,
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
        /// Coefficient of the KL divergence from the model of the imitation. With 0 that model is not loaded.
        pub kl_coeff: f64 [0.0..=1e6] = 0.0;
        /// Where the divergence counts: `loss` adds k3 to the loss, `reward` subtracts k1 from advantages.
        pub kl_in: KlPlace;
    }
}
