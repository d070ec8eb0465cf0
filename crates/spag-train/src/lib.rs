//! spag-train
