//! The flags of token sampling.

use std::path::Path;

use clap::{Args, ValueEnum};
use spag_chat::ReasoningSettings;
use spag_io::PromptFormat;
use spag_model::generate::Sampling;
use spag_model::{GenerationConfig, ModelConfig};
use spag_selfplay::{LengthSettings, PlayerSpec, SamplingSettings, limits};

use crate::{Error, Result, exit, flags};

/// The flags of programs that generate text.
#[derive(Clone, Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct SamplingArgs {
    /// Decoding: sampling (at --temperature) or testing (greedy).
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = TaskType::Sampling, help_heading = "Tokens")]
    pub task_type: TaskType,
    #[command(flatten, next_help_heading = "Tokens")]
    drawn: SamplingSettings,
    /// Maximum number of tokens in a prompt. A longer prompt loses its beginning. Prompt and completion together are
    /// limited by the positions of the model [default: what the longest completion leaves of them].
    #[arg(long, value_name = "N", value_parser = flags::within(limits::LENGTH), help_heading = "Tokens")]
    max_length: Option<usize>,
    #[command(flatten, next_help_heading = "Tokens")]
    length: LengthSettings,
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

/// What draws the tokens that a record of games describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// At least one checkpoint.
    Checkpoint,
    /// Endpoints only, to which the default top-k and the cut of prompts do not apply.
    Endpoints,
}

impl TokenSource {
    /// The source of the tokens of these players.
    pub fn of<'a>(players: impl IntoIterator<Item = &'a PlayerSpec>) -> Self {
        if players.into_iter().any(|player| player.checkpoint().is_some()) { Self::Checkpoint } else { Self::Endpoints }
    }
}

impl SamplingArgs {
    /// All settings except the seed, for records of games. A record without `top_k` was drawn from all tokens. In one with
    /// `max_length`, by earlier versions, that was the limit of prompt and completion together.
    pub fn describe(&self, source: TokenSource) -> String {
        let checkpoint = source == TokenSource::Checkpoint;
        let chosen = match self.sampling() {
            Sampling::Greedy => "greedy".to_owned(),
            Sampling::Random { temperature, top_k, top_p } => {
                let top_k = top_k.filter(|_| checkpoint).map(|k| format!("; top_k={k}")).unwrap_or_default();
                let top_p = top_p.map(|p| format!("; top_p={p}")).unwrap_or_default();
                format!("temperature={temperature}{top_k}{top_p}")
            }
        };
        let key = if checkpoint { "max_prompt_length" } else { "max_length" };
        let max_length = self.max_length.map(|most| format!("; {key}={most}")).unwrap_or_default();
        let least = match self.length.min_new_tokens {
            0 => String::new(),
            least => format!("; min_new_tokens={least}"),
        };
        format!("{chosen}; max_new_tokens={}{least}{max_length}", self.length.max_new_tokens)
    }

    /// How tokens are drawn: greedily in testing.
    pub fn settings(&self) -> SamplingSettings {
        match self.task_type {
            TaskType::Sampling => self.drawn,
            TaskType::Testing => SamplingSettings { temperature: 0.0, ..self.drawn },
        }
    }

    /// The sampling strategy of checkpoints.
    pub fn sampling(&self) -> Sampling {
        self.settings().sampling()
    }

    /// Maximum number of tokens in a completion.
    pub fn max_new_tokens(&self) -> usize {
        self.length.max_new_tokens
    }

    /// `--max_length`: the maximum number of tokens in a prompt.
    pub fn max_length(&self) -> Option<usize> {
        self.max_length
    }

    /// The settings for the model in `folder`, with a note if its positions are too few for `--max_length`.
    pub fn config(&self, model: &ModelConfig, folder: &Path) -> TextLimits {
        let limits = self.limits(model);
        limits.note_shorter_prompts(folder);
        limits
    }

    /// As [`SamplingArgs::config`], for games: if prompt and utterance cannot have the lengths that were asked for, an
    /// utterance is limited to a quarter of the positions, with a note, so that the rules and the history fit before it.
    /// The paper's 256 new tokens are an eighth of 2,048 positions.
    ///
    /// # Errors
    /// `--max_new_tokens` is not below the number of positions.
    pub(crate) fn game_config(&self, model: &ModelConfig, folder: &Path) -> Result<TextLimits> {
        let limits = self.limits(model).leave_room_for_game(folder)?;
        limits.note_shorter_prompts(folder);
        Ok(limits)
    }

    fn limits(&self, model: &ModelConfig) -> TextLimits {
        let generation = GenerationConfig {
            max_new_tokens: self.length.max_new_tokens,
            min_new_tokens: self.length.min_new_tokens,
            sampling: self.sampling(),
            ..GenerationConfig::default()
        };
        let positions = model.architecture.max_position_embeddings;
        TextLimits { max_prompt: self.max_length, positions, thought: 0, generation }
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
    /// `--max_length`: tokens of a prompt.
    max_prompt: Option<usize>,
    /// Positions of the model.
    positions: usize,
    /// Tokens of a completion beside those that it says.
    thought: usize,
    /// The settings of a completion.
    pub generation: GenerationConfig,
}

impl TextLimits {
    /// The same limits for players that may think before they speak.
    pub fn with_reasoning(self, reasoning: &ReasoningSettings, prompts: PromptFormat) -> Self {
        let said = self.generation.max_new_tokens;
        Self { thought: reasoning.completion_tokens(prompts, said, self.positions) - said, ..self }
    }

    /// The most tokens of a prompt and its completion together.
    pub fn max_length(&self) -> usize {
        let completion = self.generation.max_new_tokens.saturating_add(self.thought);
        let both = self.max_prompt.map(|prompt| prompt.saturating_add(completion));
        both.unwrap_or(self.positions).min(self.positions)
    }

    /// Whether a prompt of `--max_length` tokens and the longest completion have a position each.
    fn allows_max_length(&self) -> bool {
        self.max_prompt.is_some_and(|prompt| prompt.saturating_add(self.generation.max_new_tokens) <= self.positions)
    }

    fn note_shorter_prompts(&self, folder: &Path) {
        let (positions, new) = (self.positions, self.generation.max_new_tokens);
        let room = positions.saturating_sub(new);
        if self.max_prompt.is_some() && !self.allows_max_length() && room > 0 {
            exit::note(format_args!(
                "note: --max_length {room}: {} has {positions} positions, and a completion takes up to {new} of them",
                folder.display()
            ));
        }
    }

    fn leave_room_for_game(self, folder: &Path) -> Result<Self> {
        let most = (self.positions / 4).max(1);
        let asked = &self.generation;
        if asked.max_new_tokens <= most || self.allows_max_length() {
            return Ok(self);
        }
        if asked.max_new_tokens >= self.positions {
            let (length, folder) = (self.positions, folder.display());
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
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        sampling: SamplingArgs,
    }

    fn args(line: &str) -> SamplingArgs {
        Flags::parse_from(std::iter::once("test").chain(line.split_whitespace())).sampling
    }

    fn limits(max_prompt: Option<usize>, positions: usize) -> TextLimits {
        TextLimits { max_prompt, positions, thought: 0, generation: GenerationConfig::default() }
    }

    #[test]
    fn utterance_is_limited_to_a_quarter_of_the_context() {
        let fitted = |limits: &TextLimits| limits.clone().leave_room_for_game(Path::new("m"));
        let asked = limits(None, 2048);
        assert_eq!(fitted(&asked).unwrap(), asked);
        assert_eq!(fitted(&limits(None, 384)).unwrap().generation.max_new_tokens, 96);
        assert_eq!(fitted(&limits(Some(384), 384)).unwrap().generation.max_new_tokens, 96);
        let said = fitted(&limits(None, 256)).unwrap_err().to_string();
        assert!(said.contains("--max_new_tokens 256") && said.contains("m has room for 256 tokens"), "{said}");
        // As the reference plays it, if there are positions for what was asked.
        let short = limits(Some(100), 384);
        assert_eq!(fitted(&short).unwrap(), short);
    }

    #[test]
    fn prompts_have_max_length_tokens_if_the_positions_allow() {
        for (max_prompt, positions, both) in
            [(None, 4096, 4096), (Some(2048), 4096, 2304), (Some(3840), 4096, 4096), (Some(4096), 4096, 4096)]
        {
            assert_eq!(limits(max_prompt, positions).max_length(), both);
        }
    }

    #[test]
    fn sampling_takes_the_50_likeliest_tokens_by_default() {
        let drawn = |line: &str| args(line).sampling();
        assert_eq!(drawn(""), Sampling::Random { temperature: 1.2, top_k: Some(50), top_p: None });
        assert_eq!(drawn("--top_k 0"), Sampling::at_temperature(1.2));
        assert_eq!(drawn("--task_type testing --top_k 7"), Sampling::Greedy);
        let described = |line: &str, source| args(line).describe(source);
        use TokenSource::{Checkpoint, Endpoints};
        assert_eq!(described("", Checkpoint), "temperature=1.2; top_k=50; max_new_tokens=256");
        assert_eq!(described("--top_k 0", Checkpoint), "temperature=1.2; max_new_tokens=256");
        assert_eq!(described("", Endpoints), "temperature=1.2; max_new_tokens=256");
        let line = "--task_type testing --max_length 9 --top_p 0.5";
        assert_eq!(described(line, Checkpoint), "greedy; max_new_tokens=256; max_prompt_length=9");
        assert_eq!(described(line, Endpoints), "greedy; max_new_tokens=256; max_length=9");
    }
}
