//! spag-game
