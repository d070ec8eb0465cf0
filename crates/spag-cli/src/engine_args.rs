//! What an engine may use, as flags say it.

use clap::Args;
use spag_model::{EngineConfig, LlamaConfig, PrefixSharing};

use crate::flags;

/// The flags of everything that runs an engine.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct EngineArgs {
    /// Games, or prompts, that are worked on side by side at most; by default as many as half of the free memory has
    /// room for, up to 128.
    #[arg(long, value_name = "N", value_parser = flags::count, help_heading = "Engine")]
    pub(crate) per_device_eval_batch_size: Option<usize>,
    /// Memory for keys and values in GiB, per model; by default what the batch needs at full length, and half of the
    /// free memory at most.
    #[arg(long, value_name = "X", value_parser = flags::positive, help_heading = "Engine")]
    kv_cache_gib: Option<f64>,
    /// Tokens of a page of keys and values.
    #[arg(long, value_name = "N", value_parser = flags::count, help_heading = "Engine")]
    page_size: Option<usize>,
    /// Prompt tokens of a forward pass at most; longer prompts go in chunks.
    #[arg(long, value_name = "N", value_parser = flags::count, help_heading = "Engine")]
    max_step_tokens: Option<usize>,
    /// Compute equal beginnings once: True or False.
    #[arg(long, value_name = "BOOL", default_value = "True", value_parser = flags::truth, action = clap::ArgAction::Set, help_heading = "Engine")]
    prefix_sharing: bool,
}

impl EngineArgs {
    /// What an engine for `model` may use, whose requests have `max_length` tokens at most.
    pub(crate) fn config(&self, model: &LlamaConfig, max_length: usize) -> EngineConfig {
        let running = self.batch_size(model, max_length);
        let mut config = EngineConfig::with_length(model, running, max_length);
        if let Some(size) = self.page_size {
            config.pages = (config.pages * config.page_size / size).max(max_length.div_ceil(size));
            config.page_size = size;
        }
        if let Some(gib) = self.kv_cache_gib {
            let page = config.page_size * EngineConfig::bytes_per_token(model);
            config.pages = ((gib * 1024f64.powi(3)) as usize / page.max(1)).max(1);
        }
        config.max_step_tokens = self.max_step_tokens.unwrap_or(config.max_step_tokens);
        config.prefix_sharing = if self.prefix_sharing { PrefixSharing::On } else { PrefixSharing::Off };
        config
    }

    /// Requests at a time.
    pub(crate) fn batch_size(&self, model: &LlamaConfig, max_length: usize) -> usize {
        self.per_device_eval_batch_size.unwrap_or_else(|| EngineConfig::running_that_fit(model, max_length))
    }
}
