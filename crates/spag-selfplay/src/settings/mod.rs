//! Settings that flags, configuration files and this crate share: names, ranges, defaults and help are declared here once.

mod endpoint;
mod sampling;

pub use endpoint::EndpointSettings;
pub use sampling::{LengthSettings, SamplingSettings};
