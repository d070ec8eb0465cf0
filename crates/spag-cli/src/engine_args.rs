//! The flags of the generation engine.

use clap::Args;
use spag_model::{EngineConfig, EngineSettings, MemoryBudget, Model, ModelConfig, PrefixSharing};

use crate::{Result, flags};

/// Default of `--max_step_tokens` on a GPU: enough prompt tokens to keep the tensor cores busy.
const DEVICE_STEP_TOKENS: usize = 2048;

/// The flags of programs that run a generation engine.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct EngineArgs {
    /// Maximum number of games, or prompts, that run concurrently [default: as many as fit into half of the free memory,
    /// at most 128].
    #[arg(long, value_name = "N", value_parser = flags::whole(EngineConfig::RUNNING), help_heading = "Engine")]
    pub per_device_eval_batch_size: Option<usize>,
    /// Size of the KV cache in GiB, per model [default: what the batch needs at full length, at most half of the free
    /// memory].
    #[arg(long, value_name = "X", value_parser = flags::within(EngineConfig::CACHE_GIB), help_heading = "Engine")]
    kv_cache_gib: Option<f64>,
    /// Number of tokens in a page of the KV cache [default: 64].
    #[arg(long, value_name = "N", value_parser = flags::whole(EngineConfig::PAGE_SIZES), help_heading = "Engine")]
    page_size: Option<usize>,
    /// Maximum number of prompt tokens in a forward pass. Longer prompts are computed in chunks (chunked prefill)
    /// [default: 512, on a GPU 2048].
    #[arg(long, value_name = "N", value_parser = flags::whole(EngineConfig::STEP_TOKENS), help_heading = "Engine")]
    max_step_tokens: Option<usize>,
    /// Share the KV cache of common prefixes: True or False.
    #[arg(long, value_name = "BOOL", default_value = "True", value_parser = flags::truth, action = clap::ArgAction::Set, help_heading = "Engine")]
    prefix_sharing: bool,
    /// The number of engines that share the memory of this machine. Not a flag.
    #[arg(skip = 1usize)]
    engines: usize,
}

impl EngineArgs {
    /// The same flags for one of `engines` engines that share the memory of this machine: each uses an equal part of half
    /// of the free memory, unless flags set its size.
    pub fn among(&self, engines: usize) -> Self {
        Self { engines: engines.max(1), ..self.clone() }
    }

    /// The configuration of an engine for `model`, whose requests have at most `max_length` tokens.
    ///
    /// # Errors
    /// The free memory of the device cannot be read.
    pub fn config(&self, model: &Model, max_length: usize) -> Result<EngineConfig> {
        let memory = MemoryBudget::for_model(model)?;
        let mut config = self.config_within(model.config(), max_length, memory);
        if self.max_step_tokens.is_none() && !model.parameters().device().is_cpu() {
            config.max_step_tokens = DEVICE_STEP_TOKENS;
        }
        Ok(config)
    }

    /// [`EngineArgs::config`] within `memory`, unless flags set the size.
    fn config_within(&self, model: &ModelConfig, max_length: usize, memory: MemoryBudget) -> EngineConfig {
        let settings = EngineSettings {
            max_running: self.per_device_eval_batch_size,
            kv_cache_gib: self.kv_cache_gib,
            page_size: self.page_size,
            max_step_tokens: self.max_step_tokens,
            prefix_sharing: if self.prefix_sharing { PrefixSharing::On } else { PrefixSharing::Off },
        };
        settings.config(model, max_length, memory.split(self.engines))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        engine: EngineArgs,
    }

    fn args(line: &str) -> EngineArgs {
        Flags::parse_from(std::iter::once("test").chain(line.split_whitespace())).engine
    }

    /// A model so large that memory is the limit on any machine.
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
        let [one, two] = [1, 2].map(|engines| args.among(engines).config_within(&model, 64, memory));
        assert!(two.pages <= one.pages.div_ceil(2), "{} and {}", two.pages, one.pages);
        assert_eq!((one.max_running, two.max_running), (100_000, 100_000), "flags take precedence");
        let small = serde_json::from_str(
            r#"{"hidden_size": 8, "intermediate_size": 8, "vocab_size": 8, "num_hidden_layers": 1,
                "num_attention_heads": 1, "max_position_embeddings": 64}"#,
        )
        .unwrap();
        // With enough memory two engines are configured as one is.
        let [one, two] = [1, 2].map(|engines| self::args("").among(engines).config_within(&small, 64, memory));
        assert_eq!((one.max_running, one.pages), (two.max_running, two.pages));
    }
}
