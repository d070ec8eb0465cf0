//! Other people's files, turned into training data.

pub(crate) mod alpaca;
pub(crate) mod imitation;
