//! `spag make-base CONFIG.toml`: every setting of the base model.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spag_io::ReasoningTags;
use spag_model::generate::Sampling;
use spag_selfplay::{SamplingSettings, limits};
use spag_train::{DataOrder, TrainConfig};

use super::inputs::InputFinder;
use super::layers::load_config;
use crate::error::{Error, Result};

/// Documents, which are kept in memory.
const DOCUMENTS: RangeInclusive<usize> = 1..=2_000_000;
/// Widths of a model.
const WIDTH: RangeInclusive<usize> = 1..=65_536;

spag_io::settings! {
    /// `[tokenizer]`: byte pair encoding of the documents.
    pub table TokenizerSettings {
        /// Vocabulary size, including special tokens and characters.
        pub pieces: usize [1..=1 << 20] = 960;
        /// Documents that the tokenizer is trained on.
        pub documents: usize [DOCUMENTS] = 20_000;
        /// Extra occurrences of every target word, which are kept in memory, so that each becomes one token.
        pub word_weight: usize [0..=10_000] = 200;
        /// Which texts can become one token.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub split: TokenSplit;
    }

    /// `[model]`: the shape of the LLaMA, with the keys of Hugging Face's `config.json`.
    pub table ShapeSettings {
        /// Width of the residual stream.
        pub hidden_size: usize [WIDTH] = 128;
        /// Width of the feed-forward layers.
        pub intermediate_size: usize [WIDTH] = 344;
        /// Number of blocks.
        pub num_hidden_layers: usize [1..=1024] = 4;
        /// Attention heads of each block.
        pub num_attention_heads: usize [WIDTH] = 4;
        /// Context length, in tokens.
        pub max_position_embeddings: usize [limits::LENGTH] = 384;
        /// Base of the rotary embedding's frequencies.
        pub rope_theta: f64 [1.0..=1e9] = 10_000.0;
        /// ε of RMSNorm.
        pub rms_norm_eps: f64 [0.0..=1.0] = 1e-5;
        /// Standard deviation of the initial weights.
        pub initializer_range: f64 [0.0..=1000.0] = 0.05;
    }

    /// `[documents]`: the training texts of the base model.
    pub table DocumentSettings {
        /// Number of documents, each one sequence. In games a document is a turn: a prompt and its action.
        pub count: usize [DOCUMENTS] = 150_000;
        /// In games, the share of the documents that come last and of which only the action is learned.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub answers: f64 [0.0..=1.0];
        /// In games, the share of the turns that end in a question about the position, with its answer, in place of an action.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub questions: f64 [0.0..=1.0];
        /// What questions are about, each kind as often as it is named; what an action does and twice what is seen if absent.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub question_kinds: Vec<QuestionKind>;
        /// In games, the documents that each turn gives: actions and questions, drawn anew for each.
        pub per_turn: usize [1..=1000] = 1;
        /// In games, what is put in random order.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub order: DocumentOrder;
        /// The tags around what players think in documents, with a blank between them.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub reasoning_tags: ReasoningTags;
        /// Weights of the kinds of documents.
        pub mix: spag_world::BaseMix;
    }

    /// `[probes]`: measurements of the finished model.
    pub table ProbeSettings {
        /// Questions of each kind; positions of each game.
        pub count: usize [1..=100_000] = 480;
        /// Clues are drawn from the `top_k` most likely tokens, 0 for all; from 50 if absent.
        pub top_k: Option<usize> [limits::TOP_K];
        /// Clues are drawn from the smallest set of most likely tokens whose probabilities sum to `top_p`.
        pub top_p: Option<f64> [limits::TOP_P];
    }

    /// The configuration of a base model, in which [`BaseConfig::load`] has set every value and found every input.
    pub table BaseConfig {
        /// Another configuration, relative to this one, that provides missing settings. Left out of the resolved settings.
        #[serde(skip_serializing)]
        pub extends: Option<String>;
        /// The Hugging Face folder to be written, relative to the current directory.
        pub output_dir: PathBuf = PathBuf::from("data/tiny-llama");
        /// Seed of documents, initial weights and probes.
        pub seed: u64;
        /// Games, each with its options, whose random play the model learns instead of texts of the lexicon.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub games: Vec<String>;
        /// The lexicon; the built-in one if absent.
        pub lexicon: Option<PathBuf>;
        /// Prompt wordings of the games among the documents; the defaults of spag-game if absent.
        pub prompts: Option<PathBuf>;
        /// Maximum turns of a game among documents and probes.
        pub max_turns: usize [limits::TURNS] = 5;
        /// The tokenizer.
        pub tokenizer: TokenizerSettings;
        /// The shape of the model.
        pub model: ShapeSettings;
        /// The training texts.
        pub documents: DocumentSettings;
        /// Training.
        pub train: TrainConfig = TrainConfig {
            per_device_train_batch_size: 32,
            num_train_epochs: 1.0,
            learning_rate: 2.5e-3,
            warmup_steps: Some(50),
            weight_decay: 0.01,
            adam_beta2: 0.98,
            data_order: DataOrder::Sequential,
            max_length: 384,
            logging_steps: 20,
            ..TrainConfig::default()
        };
        /// Measurements of the finished model.
        pub probes: ProbeSettings;
    }
}

/// What a question about a position asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// What a legal action does: nothing, wins, loses or draws.
    Effect,
    /// A value that the player to move sees, such as a cell of a board.
    Seen,
    /// Which action wins at once, if any.
    Wins,
    /// Which reply to a legal action wins at once, if any.
    Replies,
}

/// The order of documents of games.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentOrder {
    /// All turns are shuffled.
    #[default]
    Turns,
    /// Whole games are shuffled: with `train.packing = "tree"` their turns share the tokens of their prompts.
    Games,
}

/// Where a tokenizer splits texts before it merges characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenSplit {
    /// Before spaces and around punctuation: a token is at most a word.
    #[default]
    Words,
    /// Around digits, single capital letters and the cells of boards, and at ends of lines: the fixed phrases of a game become
    /// one token, and what differs between positions keeps its own.
    Phrases,
}

impl ShapeSettings {
    /// The model's `config.json` without its special tokens.
    pub(crate) fn llama_keys(&self, vocab_size: usize) -> Map<String, Value> {
        let keys = [
            ("hidden_size", Value::from(self.hidden_size)),
            ("intermediate_size", self.intermediate_size.into()),
            ("vocab_size", vocab_size.into()),
            ("num_hidden_layers", self.num_hidden_layers.into()),
            ("num_attention_heads", self.num_attention_heads.into()),
            ("num_key_value_heads", self.num_attention_heads.into()),
            ("max_position_embeddings", self.max_position_embeddings.into()),
            ("rms_norm_eps", self.rms_norm_eps.into()),
            ("rope_theta", self.rope_theta.into()),
            ("tie_word_embeddings", false.into()),
            ("initializer_range", self.initializer_range.into()),
        ];
        keys.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
    }
}

impl ProbeSettings {
    /// How clues are drawn.
    pub(crate) fn sampling(&self) -> Sampling {
        SamplingSettings { temperature: 1.0, top_k: self.top_k, top_p: self.top_p }.sampling()
    }
}

impl BaseConfig {
    /// Reads `file`, applies `overrides` (each `key.path=value`), finds inputs and checks all values.
    ///
    /// # Errors
    /// Unknown keys and wrong types (with file and line), missing inputs, and invalid values.
    pub fn load(file: impl AsRef<Path>, overrides: &[String]) -> Result<Self> {
        let file = file.as_ref();
        let layers = load_config::<Self>(file, overrides)?;
        layers.check(Self::check)?;
        let mut config = layers.config;
        let mut inputs = InputFinder::new(file);
        for (setting, path) in [("lexicon", &mut config.lexicon), ("prompts", &mut config.prompts)] {
            path.iter_mut().for_each(|path| inputs.find(setting, path));
        }
        inputs.finish()?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        let (width, heads) = (self.model.hidden_size, self.model.num_attention_heads);
        if width % heads != 0 {
            let message = format!("{heads} heads do not divide hidden_size {width}");
            return Err(Error::BadSetting { setting: "model.num_attention_heads", message });
        }
        Ok(())
    }
}
