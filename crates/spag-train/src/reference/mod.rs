//! ℓ_ref: the mean log-probability of every sample under the frozen reference model.
//!
//! It is constant for a data set, so it is computed once, before the first step, and the reference model is gone when
//! training begins.

mod cache;
mod compute;

pub use cache::ReferenceKey;
pub use compute::reference_log_probs;

pub(crate) use cache::cached;
