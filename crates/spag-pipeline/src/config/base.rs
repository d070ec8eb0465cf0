//! `spag make-base CONFIG.toml`: every setting of the base model.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spag_io::Range as _;
use spag_selfplay::limits;
use spag_train::{DataOrder, SchedulerType, TrainConfig, TrainMethod};

use super::layers::{find_input, load_config};
use crate::error::{Error, Result};

spag_io::ranges! {
    /// Documents, which are kept in memory.
    Documents: usize = 1..=2_000_000;
    /// Tokens of a vocabulary.
    Pieces: usize = 1..=1 << 20;
    /// Extra occurrences of a word, which are kept in memory.
    WordWeight: usize = 0..=10_000;
    /// Widths of a model.
    Width: usize = 1..=65_536;
    /// Blocks of a model.
    Blocks: usize = 1..=1024;
    /// Questions of each kind.
    Probes: usize = 1..=100_000;
    /// Base of rotary embeddings.
    RopeTheta: f64 = 1.0..=1e9;
    /// ε of RMSNorm.
    NormEpsilon: f64 = 0.0..=1.0;
    /// Standard deviation of weights.
    Deviation: f64 = 0.0..=1000.0;
}

/// `[tokenizer]`: byte pair encoding of the documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerSettings {
    /// Vocabulary size, including special tokens and characters.
    #[serde(deserialize_with = "Pieces::read")]
    pub pieces: usize,
    /// Documents that the tokenizer is trained on.
    #[serde(deserialize_with = "Documents::read")]
    pub documents: usize,
    /// Extra occurrences of every target word, so that each becomes one token.
    #[serde(deserialize_with = "WordWeight::read")]
    pub word_weight: usize,
}

impl Default for TokenizerSettings {
    fn default() -> Self {
        Self { pieces: 960, documents: 20_000, word_weight: 200 }
    }
}

/// `[model]`: the shape of the LLaMA, with the keys of Hugging Face's `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShapeSettings {
    /// Width of the residual stream.
    #[serde(deserialize_with = "Width::read")]
    pub hidden_size: usize,
    /// Width of the feed-forward layers.
    #[serde(deserialize_with = "Width::read")]
    pub intermediate_size: usize,
    /// Number of blocks.
    #[serde(deserialize_with = "Blocks::read")]
    pub num_hidden_layers: usize,
    /// Attention heads of each block.
    #[serde(deserialize_with = "Width::read")]
    pub num_attention_heads: usize,
    /// Context length, in tokens.
    #[serde(deserialize_with = "limits::Length::read")]
    pub max_position_embeddings: usize,
    /// Base of the rotary embedding's frequencies.
    #[serde(deserialize_with = "RopeTheta::read")]
    pub rope_theta: f64,
    /// ε of RMSNorm.
    #[serde(deserialize_with = "NormEpsilon::read")]
    pub rms_norm_eps: f64,
    /// Standard deviation of the initial weights.
    #[serde(deserialize_with = "Deviation::read")]
    pub initializer_range: f64,
}

impl Default for ShapeSettings {
    fn default() -> Self {
        Self {
            hidden_size: 128,
            intermediate_size: 344,
            num_hidden_layers: 4,
            num_attention_heads: 4,
            max_position_embeddings: 384,
            rope_theta: 10_000.0,
            rms_norm_eps: 1e-5,
            initializer_range: 0.05,
        }
    }
}

/// `[documents]`: the training texts of the base model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentSettings {
    /// Number of documents, each one sequence.
    #[serde(deserialize_with = "Documents::read")]
    pub count: usize,
    /// Weights of the kinds of documents.
    pub mix: spag_world::BaseMix,
}

impl Default for DocumentSettings {
    fn default() -> Self {
        Self { count: 150_000, mix: spag_world::BaseMix::default() }
    }
}

/// `[probes]`: measurements of the finished model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeSettings {
    /// Questions of each kind.
    #[serde(deserialize_with = "Probes::read")]
    pub count: usize,
    /// Clues are drawn from the `top_k` most likely tokens; 0, the default, means all.
    #[serde(deserialize_with = "limits::TopK::read")]
    pub top_k: usize,
    /// Clues are drawn from the smallest set of most likely tokens whose probabilities sum to `top_p`.
    #[serde(deserialize_with = "limits::TopP::read")]
    pub top_p: Option<f64>,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self { count: 480, top_k: 0, top_p: None }
    }
}

/// The configuration of a base model, in which [`BaseConfig::load`] has set every value and found every input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BaseConfig {
    /// Another configuration, relative to this one, that provides missing settings. `None` after loading.
    #[serde(skip_serializing)]
    pub extends: Option<String>,
    /// The Hugging Face folder to be written, relative to the current directory.
    pub output_dir: PathBuf,
    /// Seed of documents, initial weights and probes.
    pub seed: u64,
    /// The lexicon; the built-in one if absent.
    pub lexicon: Option<PathBuf>,
    /// Prompt wordings of the games among the documents; the defaults of spag-game if absent.
    pub prompts: Option<PathBuf>,
    /// Maximum turns of a game among documents and probes.
    #[serde(deserialize_with = "limits::Turns::read")]
    pub max_turns: usize,
    /// The tokenizer.
    pub tokenizer: TokenizerSettings,
    /// The shape of the model.
    pub model: ShapeSettings,
    /// The training texts.
    pub documents: DocumentSettings,
    /// Training.
    pub train: TrainConfig,
    /// Measurements of the finished model.
    pub probes: ProbeSettings,
}

impl Default for BaseConfig {
    fn default() -> Self {
        Self {
            extends: None,
            output_dir: PathBuf::from("data/tiny-llama"),
            seed: 0,
            lexicon: None,
            prompts: None,
            max_turns: 5,
            tokenizer: TokenizerSettings::default(),
            model: ShapeSettings::default(),
            documents: DocumentSettings::default(),
            train: TrainConfig {
                method: TrainMethod::Sft,
                per_device_train_batch_size: 32,
                num_train_epochs: 1.0,
                learning_rate: 2.5e-3,
                lr_scheduler_type: SchedulerType::Linear,
                warmup_steps: Some(50),
                weight_decay: 0.01,
                adam_beta2: 0.98,
                data_order: DataOrder::Sequential,
                max_length: 384,
                logging_steps: 20,
                ..TrainConfig::default()
            },
            probes: ProbeSettings::default(),
        }
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
        for (setting, path) in [("lexicon", &mut config.lexicon), ("prompts", &mut config.prompts)] {
            *path = path.as_deref().map(|path| find_input(setting, path, file)).transpose()?;
        }
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
