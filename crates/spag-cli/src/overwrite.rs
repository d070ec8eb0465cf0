//! The flag of programs that write a model.

use clap::{ArgAction, Args};
use spag_io::Contents;

use crate::flags;

/// Whether an existing model may be replaced.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(rename_all = "snake_case")]
pub struct OverwriteArgs {
    /// Replace the model or the results that the output folder holds: True or False. Otherwise such a folder is refused.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = flags::truth)]
    overwrite_output_dir: bool,
}

impl OverwriteArgs {
    /// What the output folder may hold.
    pub fn kept(self) -> &'static [Contents] {
        if self.overwrite_output_dir { &Contents::ALL } else { &[] }
    }
}
