//! How a checkpoint chooses its tokens, as flags say it.

use std::path::Path;

use clap::{Args, ValueEnum};
use spag_model::{GenerationConfig, LlamaConfig, Sampling};

use crate::{Error, Result, exit, flags};

/// The flags of everything that generates text.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct SamplingArgs {
    /// How tokens are chosen.
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = TaskType::Sampling, help_heading = "Tokens")]
    pub task_type: TaskType,
    /// Sampling temperature.
    #[arg(long, value_name = "X", default_value_t = 1.2, value_parser = flags::positive, help_heading = "Tokens")]
    temperature: f64,
    /// Draw from this many likeliest tokens only.
    #[arg(long, value_name = "N", value_parser = flags::count, help_heading = "Tokens")]
    top_k: Option<usize>,
    /// Draw from the likeliest tokens that together have this probability only.
    #[arg(long, value_name = "X", value_parser = flags::share, help_heading = "Tokens")]
    top_p: Option<f64>,
    /// Tokens of a prompt and its completion together at most, by default what the model can hold; a longer prompt
    /// loses its beginning.
    #[arg(long, value_name = "N", value_parser = flags::count, help_heading = "Tokens")]
    max_length: Option<usize>,
    /// Tokens of a completion at most.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = flags::count, help_heading = "Tokens")]
    max_new_tokens: usize,
    /// Tokens of a completion at least: before, neither EOS nor a stop token is chosen.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Tokens")]
    min_new_tokens: usize,
    /// Seed of everything drawn.
    #[arg(long, value_name = "N", default_value_t = 42, help_heading = "Tokens")]
    pub seed: u64,
}

/// `--task_type`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TaskType {
    /// Drawn at random, at --temperature.
    Sampling,
    /// The likeliest one, always.
    Testing,
}

impl TaskType {
    /// Its name in the names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Testing => "testing",
        }
    }
}

impl SamplingArgs {
    /// Everything that decides what is drawn, but the seed.
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

    /// How tokens are chosen.
    pub fn sampling(&self) -> Sampling {
        match self.task_type {
            TaskType::Sampling => {
                Sampling::Random { temperature: self.temperature, top_k: self.top_k, top_p: self.top_p }
            }
            TaskType::Testing => Sampling::Greedy,
        }
    }

    /// Tokens of a completion at most.
    pub fn max_new_tokens(&self) -> usize {
        self.max_new_tokens
    }

    /// The settings for one model.
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

/// How a model generates, and how long a prompt and its completion may be together.
#[derive(Clone, Debug, PartialEq)]
pub struct TextLimits {
    pub max_length: usize,
    pub generation: GenerationConfig,
}

impl TextLimits {
    /// Keeps an utterance to a quarter of what the model can hold, and says so, so that the rules and the game before
    /// it fit in front of it. Of 2,048 positions the paper's 256 new tokens are an eighth.
    ///
    /// # Errors
    /// More new tokens were asked for than there is room for in all: that is no wish that could be cut to size.
    pub fn leave_room_for_game(self, folder: &Path) -> Result<Self> {
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
    fn an_utterance_leaves_room_for_the_game() {
        let asked = TextLimits { max_length: 2048, generation: GenerationConfig::default() };
        let fitted = |limits: &TextLimits| limits.clone().leave_room_for_game(Path::new("m"));
        assert_eq!(fitted(&asked).unwrap(), asked);
        let small = TextLimits { max_length: 384, ..asked.clone() };
        assert_eq!(fitted(&small).unwrap().generation.max_new_tokens, 96);
        let said = fitted(&TextLimits { max_length: 256, ..asked }).unwrap_err().to_string();
        assert!(said.contains("--max_new_tokens 256") && said.contains("m has room for 256 tokens"), "{said}");
    }
}
