//! The programs, one file each: flags, and the one library call that they lead to.

pub mod assign_rewards;
pub mod play;
pub mod spag;
pub mod train;
