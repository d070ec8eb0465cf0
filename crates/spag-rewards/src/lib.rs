//! spag-rewards
