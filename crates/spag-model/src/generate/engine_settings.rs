//! User settings of an engine; the rest is derived from the model and the free memory.

use super::config::{EngineConfig, MemoryBudget, PrefixSharing, Processor};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::model::Model;

/// Default prompt tokens per pass on a GPU: enough to keep the tensor cores busy.
const DEVICE_STEP_TOKENS: usize = 2048;

spag_io::settings! {
    /// Settings of an engine. Absent ones follow from the model and the memory.
    #[derive(Copy, clap::Args)]
    pub flags EngineSettings {
        /// Maximum number of games, or prompts, that run concurrently [default: as many as fit into half of the free memory,
        /// at most 128].
        #[arg(long = "per_device_eval_batch_size", value_name = "N", help_heading = "Engine")]
        pub max_running as "games_in_flight": Option<usize> [1..=1 << 20];
        /// Size of the KV cache in GiB, per model [default: what the batch needs at full length, at most half of the free
        /// memory].
        #[arg(value_name = "X", help_heading = "Engine")]
        pub kv_cache_gib: Option<f64> [1e-6..=65_536.0];
        /// Number of tokens in a page of the KV cache [default: 64].
        #[arg(value_name = "N", help_heading = "Engine")]
        pub page_size: Option<usize> [1..=1 << 16];
        /// Maximum number of prompt tokens in a forward pass. Longer prompts are computed in chunks (chunked prefill)
        /// [default: 512, on a GPU 2048].
        #[arg(value_name = "N", help_heading = "Engine")]
        pub max_step_tokens: Option<usize> [1..=1 << 20];
        /// Share the KV cache of common prefixes: True or False.
        #[arg(value_name = "BOOL", default_value = "True", value_parser = spag_io::truth, action = clap::ArgAction::Set, help_heading = "Engine")]
        #[serde(skip_serializing_if = "Clone::clone")]
        pub prefix_sharing: bool = true;
    }
}

impl EngineSettings {
    /// The configuration for `model`, one of `engines` that share the memory of a machine or GPU: each gets an equal part
    /// of half of the free memory, unless a setting specifies the size.
    ///
    /// # Errors
    /// The free memory of the device cannot be read.
    pub fn for_model(&self, model: &Model, max_length: usize, engines: usize) -> Result<EngineConfig> {
        let memory = MemoryBudget::for_model(model)?.split(engines);
        Ok(self.config_on(Processor::of(model.parameters().device()), model.config(), max_length, memory))
    }

    /// [`EngineSettings::config`] with the defaults of a processor.
    pub fn config_on(
        &self,
        processor: Processor,
        model: &ModelConfig,
        max_length: usize,
        memory: MemoryBudget,
    ) -> EngineConfig {
        let mut config = self.config(model, max_length, memory);
        if self.max_step_tokens.is_none() && processor == Processor::Gpu {
            config.max_step_tokens = DEVICE_STEP_TOKENS;
        }
        config
    }

    /// The configuration for requests of at most `max_length` tokens, within `memory` unless a setting specifies the
    /// size.
    pub fn config(&self, model: &ModelConfig, max_length: usize, memory: MemoryBudget) -> EngineConfig {
        let running = self.max_running.unwrap_or_else(|| EngineConfig::max_running_that_fit(model, max_length, memory));
        let mut config = EngineConfig::with_max_length(model, running, max_length, memory);
        if let Some(size) = self.page_size {
            let tokens = config.pages.saturating_mul(config.page_size);
            config.pages = (tokens / size.max(1)).max(max_length.div_ceil(size.max(1)));
            config.page_size = size;
        }
        if let Some(gib) = self.kv_cache_gib {
            let token = EngineConfig::bytes_per_token(model, memory.bytes_per_value);
            let page = config.page_size.saturating_mul(token);
            config.pages = ((gib * 1024f64.powi(3)) as usize / page.max(1)).max(1);
        }
        config.max_step_tokens = self.max_step_tokens.unwrap_or(config.max_step_tokens);
        config.prefix_sharing = if self.prefix_sharing { PrefixSharing::On } else { PrefixSharing::Off };
        config
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        engine: EngineSettings,
    }

    fn args(line: &str) -> EngineSettings {
        Flags::parse_from(std::iter::once("test").chain(line.split_whitespace())).engine
    }

    /// A model so large that memory is the limit on every machine.
    fn large() -> ModelConfig {
        serde_json::from_str(
            r#"{"hidden_size": 65536, "intermediate_size": 8, "vocab_size": 8, "num_hidden_layers": 512,
                "num_attention_heads": 512, "max_position_embeddings": 4096}"#,
        )
        .unwrap()
    }

    #[test]
    fn flags_out_of_range_are_refused() {
        for line in [
            "--kv_cache_gib 0",
            "--kv_cache_gib 1e6",
            "--kv_cache_gib nan",
            "--page_size 0",
            "--page_size 4294967296",
            "--max_step_tokens 18446744073709551615",
            "--per_device_eval_batch_size 9223372036854775807",
        ] {
            let error = Flags::try_parse_from(std::iter::once("test").chain(line.split_whitespace()));
            let said = error.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains("at least"), "{line}: {said}");
        }
    }

    #[test]
    fn two_engines_share_the_memory_of_one() {
        let memory = MemoryBudget::host();
        let (model, args) = (large(), args("--per_device_eval_batch_size 100000"));
        // One page takes 16 GiB. Each engine has at least one page.
        let [one, two] = [1, 2].map(|engines| args.config(&model, 64, memory.split(engines)));
        assert!(two.pages <= one.pages.div_ceil(2), "{} and {}", two.pages, one.pages);
        assert_eq!((one.max_running, two.max_running), (100_000, 100_000), "flags take precedence");
        let small = serde_json::from_str(
            r#"{"hidden_size": 8, "intermediate_size": 8, "vocab_size": 8, "num_hidden_layers": 1,
                "num_attention_heads": 1, "max_position_embeddings": 64}"#,
        )
        .unwrap();
        // With enough memory, two engines are configured like one.
        let [one, two] = [1, 2].map(|engines| self::args("").config(&small, 64, memory.split(engines)));
        assert_eq!((one.max_running, one.pages), (two.max_running, two.pages));
    }
}
