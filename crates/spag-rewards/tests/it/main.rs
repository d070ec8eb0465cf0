//! Rewards of episodes, and the files they are written to.

mod files;
mod fixture_parity;
mod hostile;
mod reasoning;
mod rewarded;
mod threads;
mod wording;
