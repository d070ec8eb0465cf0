//! The file that `--deepspeed FILE` names: read, checked against the flags, and resolved.
//!
//! It has the meaning that it has for transformers' Trainer (4.37, `integrations/deepspeed.py`) and DeepSpeed
//! (<https://www.deepspeed.ai/docs/config-json/>):
//!
//! - `"auto"` takes a flag's value.
//! - A value that contradicts a flag is an error, and so are features that this program does not have: other
//!   optimizers, fp16, NVMe, quantised communication. All problems are reported at once.
//! - Other keys, which report, profile or tune DeepSpeed's implementation (the sizes of its buckets, say), have no effect, and one note
//!   names them.
//!
//! There are two differences to DeepSpeed. A misspelled key within a section is an error. An absent key that repeats a flag takes
//! the flag's value, like `"auto"`, instead of DeepSpeed's default (no clipping, a learning rate of 1e-3).
//!
//! ```no_run
//! use spag_train::TrainConfig;
//! use spag_train::deepspeed::{DeepSpeed, RunFacts};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = TrainConfig::default();
//! let run = RunFacts { config: &config, world_size: 8, total_steps: 1000 };
//! let settings = DeepSpeed::load("configs/default_offload_opt_param.json".as_ref(), &run)?;
//! println!("ZeRO stage {}", settings.sharding_plan().stage.number());
//! println!("{}", serde_json::to_string_pretty(&settings)?);
//! # Ok(())
//! # }
//! ```

mod checks;
mod error;
mod facts;
mod json;
mod read;
mod resolve;
mod scheduler;
mod schema;
#[cfg(test)]
mod tests;
mod unread;

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use spag_io::quote;

use crate::config::ShardingPlan;
use crate::error::Result;
use read::Reader;

pub use error::DeepSpeedError;
pub use facts::RunFacts;

pub(crate) use scheduler::{Scheduler, SchedulerParams, WarmupType};

/// The most bytes of a DeepSpeed file.
const MAX_BYTES: u64 = 1 << 26;

/// The resolved settings of a DeepSpeed file: numbers instead of `"auto"`, DeepSpeed's defaults for absent keys. Written as
/// JSON, they are a valid DeepSpeed file.
///
/// Settings that repeat a flag always equal the flag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct DeepSpeed {
    /// All settings.
    resolved: Value,
    /// Sharding and offloads.
    #[serde(skip)]
    sharding_plan: ShardingPlan,
    /// A schedule of DeepSpeed, which replaces `--lr_scheduler_type`, as in transformers.
    #[serde(skip)]
    pub(crate) scheduler: Option<Scheduler>,
    /// Keys of the file without an effect, quoted.
    #[serde(skip)]
    without_effect: Vec<String>,
}

impl DeepSpeed {
    /// Reads `path`, fills in `"auto"` from `run` and checks the rest against it.
    ///
    /// # Errors
    /// A file that cannot be read or is not JSON, and all problems of its settings together.
    pub fn load(path: &Path, run: &RunFacts<'_>) -> Result<Self> {
        let bytes = spag_io::read_whole(path, MAX_BYTES)?;
        let wrong = |reason: String| spag_io::Error::Json { path: path.to_owned(), reason };
        let text = str::from_utf8(&bytes).map_err(|error| wrong(format!("not UTF-8: {error}")))?;
        let root = json::parse(text.strip_prefix('\u{feff}').unwrap_or(text))
            .map_err(|error| wrong(quote(&error.to_string())))?;
        Ok(Self::resolve(&root, run).map_err(|problems| DeepSpeedError { path: path.to_owned(), problems })?)
    }

    /// As [`DeepSpeed::load`], for parsed JSON.
    fn resolve(root: &Value, run: &RunFacts<'_>) -> Result<Self, Vec<String>> {
        if !root.is_object() {
            return Err(vec![error::invalid("the file", "a JSON object", root)]);
        }
        let mut reader = Reader::new(root);
        schema::refuse_unsupported(&mut reader);
        checks::check(&mut reader, run);
        let (sharding_plan, scheduler) = resolve::resolve(&mut reader, run);
        let without_effect = reader.without_effect();
        let Reader { problems, resolved, .. } = reader;
        if problems.is_empty() {
            Ok(Self { resolved, sharding_plan, scheduler, without_effect })
        } else {
            Err(problems)
        }
    }

    /// The keys of the file that have no effect here, quoted and separated by commas; `None` without any.
    pub fn without_effect(&self) -> Option<String> {
        let listed = self.without_effect.iter().take(error::LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = self.without_effect.len().saturating_sub(error::LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!listed.is_empty()).then(|| listed + &more)
    }

    /// Sharding and offloads of the file.
    pub fn sharding_plan(&self) -> ShardingPlan {
        self.sharding_plan
    }

    /// The name of the file's scheduler, which replaces `--lr_scheduler_type`.
    pub fn scheduler_name(&self) -> Option<&'static str> {
        self.scheduler.as_ref().map(Scheduler::name)
    }
}
