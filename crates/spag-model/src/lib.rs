//! spag-model
