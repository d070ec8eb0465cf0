//! Credit assignment for Adversarial Taboo: judged games to rewarded samples, and converters of other data. No tensors.
#![doc = include_str!("../README.md")]

mod advantage;
mod config;
mod convert;
mod credit;
mod error;
mod files;
mod ordered;
mod query;
mod reasoning;
mod sample;
mod sample_file;
mod summary;

pub use advantage::{
    Advantages, BatchShape, Deviation, Estimator, EstimatorSettings, EstimatorState, Group, NormaliseOrder,
    OutcomeRewards, Rae, RandomWinner, RewardSource, RewardedGame, Signed, TieReward, Turn, TurnBaseline, Winner,
};
pub use config::CreditConfig;
pub use convert::{AlpacaRow, AlpacaTemplate, Demonstration, convert_alpaca, convert_imitation, read_sft_samples};
pub use credit::{
    AssignedRewards, Credit, CreditRule, DecayedWinner, DrawnWinner, ImitatedWinner, RewardNorm, SignedSeats,
    assign_rewards, credit_games, discounted_rewards,
};
pub use error::{Error, Result};
pub use files::{AssignJob, assign_rewards_in_files};
pub use query::Query;
pub use reasoning::SampleReasoning;
pub use sample::{BadNumber, Sample, SampleKind};
pub use sample_file::{read_samples, write_samples};
pub use summary::CreditSummary;
