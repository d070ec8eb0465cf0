//! spag-cli
