//! The Python module `spag`: the judge, credit, prompts and counts of games for Python, and a reward function for trainers.
//!
//! Every function converts its arguments, calls `spag-game` or `spag-rewards`, and converts the result. Invalid arguments raise
//! ValueError, or TypeError if a keyword is unknown. `spag.pyi` declares the types.

mod config;
mod convert;
mod judge;
mod prompts;
mod rewards;
mod taboo_reward;
mod tally;

/// Judging, credit, prompts and counts of Adversarial Taboo and the other games of SPAG.
#[pyo3::pymodule]
mod spag {
    #[pymodule_export]
    use crate::judge::{judge, judge_episodes};
    #[pymodule_export]
    use crate::prompts::Prompts;
    #[pymodule_export]
    use crate::rewards::assign_rewards;
    #[pymodule_export]
    use crate::taboo_reward::TabooReward;
    #[pymodule_export]
    use crate::tally::tally;

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
