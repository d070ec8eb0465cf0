//! The flags of token sampling.

use std::path::Path;

use clap::{Args, ValueEnum};
use spag_model::{GenerationConfig, LlamaConfig, Sampling};
use spag_selfplay::limits;

use crate::{Error, Result, exit, flags};

/// The flags of programs that generate text.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct SamplingArgs {
    /// Decoding: sampling (at --temperature) or testing (greedy).
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = TaskType::Sampling, help_heading = "Tokens")]
    pub task_type: TaskType,
    /// Sampling temperature, from 0.0001 to 10000. --task_type testing is greedy.
    #[arg(long, value_name = "X", default_value_t = 1.2, value_parser = flags::within(limits::TEMPERATURE), help_heading = "Tokens")]
    temperature: f64,
    /// Sample from the K most likely tokens only.
    #[arg(long, value_name = "N", value_parser = flags::whole(limits::TOP_K), help_heading = "Tokens")]
    top_k: Option<usize>,
    /// Sample from the smallest set of most likely tokens whose probabilities sum to at least X.
    #[arg(long, value_name = "X", value_parser = flags::share, help_heading = "Tokens")]
    top_p: Option<f64>,
    /// Maximum number of tokens in a prompt and its completion together. A longer prompt loses its beginning [default: the
    /// context length of the model].
    #[arg(long, value_name = "N", value_parser = flags::whole(limits::LENGTH), help_heading = "Tokens")]
    max_length: Option<usize>,
    /// Maximum number of tokens in a completion.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = flags::whole(limits::NEW_TOKENS), help_heading = "Tokens")]
    max_new_tokens: usize,
    /// Minimum number of tokens in a completion: EOS and stop tokens are not sampled before it is reached.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = flags::whole(limits::MIN_NEW_TOKENS), help_heading = "Tokens")]
    min_new_tokens: usize,
    /// Seed of all sampling.
    #[arg(long, value_name = "N", default_value_t = 42, help_heading = "Tokens")]
    pub seed: u64,
}

/// `--task_type`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TaskType {
    /// Random, at --temperature.
    Sampling,
    /// Greedy: always the most likely token.
    Testing,
}

impl TaskType {
    /// The name used in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Testing => "testing",
        }
    }
}

impl SamplingArgs {
    /// All settings except the seed, for records of games.
    pub fn describe(&self) -> String {
        let chosen = match self.task_type {
            TaskType::Testing => "greedy".to_owned(),
            TaskType::Sampling => {
                let top_k = self.top_k.map(|k| format!("; top_k={k}")).unwrap_or_default();
                let top_p = self.top_p.map(|p| format!("; top_p={p}")).unwrap_or_default();
                format!("temperature={}{top_k}{top_p}", self.temperature)
            }
        };
        let max_length = self.max_length.map(|most| format!("; max_length={most}")).unwrap_or_default();
        let least = match self.min_new_tokens {
            0 => String::new(),
            least => format!("; min_new_tokens={least}"),
        };
        format!("{chosen}; max_new_tokens={}{least}{max_length}", self.max_new_tokens)
    }

    /// The sampling strategy.
    pub fn sampling(&self) -> Sampling {
        match self.task_type {
            TaskType::Sampling => {
                Sampling::Random { temperature: self.temperature, top_k: self.top_k, top_p: self.top_p }
            }
            TaskType::Testing => Sampling::Greedy,
        }
    }

    /// Maximum number of tokens in a completion.
    pub fn max_new_tokens(&self) -> usize {
        self.max_new_tokens
    }

    /// The settings for the model in `folder`.
    pub fn config(&self, model: &LlamaConfig, folder: &Path) -> TextLimits {
        let positions = model.max_position_embeddings;
        let max_length = fit_max_length(self.max_length.unwrap_or(positions), positions, folder);
        let generation = GenerationConfig {
            max_new_tokens: self.max_new_tokens,
            min_new_tokens: self.min_new_tokens,
            sampling: self.sampling(),
            ..GenerationConfig::default()
        };
        TextLimits { max_length, generation }
    }
}

/// Limits `--max_length` to the number of positions of the model in `folder`, with a note if that shortens it.
pub fn fit_max_length(asked: usize, positions: usize, folder: &Path) -> usize {
    if asked > positions {
        exit::note(format_args!("note: --max_length {positions}: {} has no more positions", folder.display()));
    }
    asked.min(positions)
}

/// The generation settings of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct TextLimits {
    pub max_length: usize,
    pub generation: GenerationConfig,
}

impl TextLimits {
    /// Limits an utterance to a quarter of the context, with a note, so that the rules and the history fit before it. The
    /// paper's 256 new tokens are an eighth of 2,048 positions.
    ///
    /// # Errors
    /// `--max_new_tokens` is not below the context length.
    pub(crate) fn leave_room_for_game(self, folder: &Path) -> Result<Self> {
        let most = (self.max_length / 4).max(1);
        let asked = &self.generation;
        if asked.max_new_tokens <= most {
            return Ok(self);
        }
        if asked.max_new_tokens >= self.max_length {
            let (length, folder) = (self.max_length, folder.display());
            return Err(Error::BadValue {
                flag: format!("--max_new_tokens {}", asked.max_new_tokens),
                problem: format!("{folder} has room for {length} tokens, prompt and utterance together; ask for fewer"),
            });
        }
        exit::note(format_args!(
            "note: --max_new_tokens {most}: more would push the game out of {}'s context",
            folder.display()
        ));
        let min_new_tokens = asked.min_new_tokens.min(most);
        let generation = GenerationConfig { max_new_tokens: most, min_new_tokens, ..self.generation };
        Ok(Self { generation, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utterance_is_limited_to_a_quarter_of_the_context() {
        let asked = TextLimits { max_length: 2048, generation: GenerationConfig::default() };
        let fitted = |limits: &TextLimits| limits.clone().leave_room_for_game(Path::new("m"));
        assert_eq!(fitted(&asked).unwrap(), asked);
        let small = TextLimits { max_length: 384, ..asked.clone() };
        assert_eq!(fitted(&small).unwrap().generation.max_new_tokens, 96);
        let said = fitted(&TextLimits { max_length: 256, ..asked }).unwrap_err().to_string();
        assert!(said.contains("--max_new_tokens 256") && said.contains("m has room for 256 tokens"), "{said}");
    }
}
