//! `spag make-base CONFIG.toml`: every setting of the base model.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spag_train::{DataOrder, SchedulerType, TrainConfig, TrainMethod};
use toml::Table;

use super::layers::Layers;
use super::paths::find_input;
use crate::error::{Error, Result};

/// `[tokenizer]`: byte pair encoding on the world's texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerSettings {
    /// Pieces, special tokens and characters included.
    pub pieces: usize,
    /// Documents that the pieces are counted on.
    pub documents: usize,
    /// Times that every target word is counted on top, so that each becomes one piece.
    pub word_weight: usize,
}

impl Default for TokenizerSettings {
    fn default() -> Self {
        Self { pieces: 960, documents: 20_000, word_weight: 200 }
    }
}

/// `[model]`: the shape of the LLaMA, with the names of Hugging Face's `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShapeSettings {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layers.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Attention heads of each block.
    pub num_attention_heads: usize,
    /// Longest sequence, in tokens.
    pub max_position_embeddings: usize,
    /// Base of the rotary embedding's frequencies.
    pub rope_theta: f64,
    /// ε inside the root of RMSNorm.
    pub rms_norm_eps: f64,
    /// Standard deviation of the first weights.
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

/// `[documents]`: what the base model reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentSettings {
    /// Documents in all, each a sequence of its own.
    pub count: usize,
    /// How often each kind of document is drawn.
    pub mix: spag_world::BaseMix,
}

impl Default for DocumentSettings {
    fn default() -> Self {
        Self { count: 150_000, mix: spag_world::BaseMix::default() }
    }
}

/// `[probes]`: what is measured at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeSettings {
    /// Questions of each kind.
    pub count: usize,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self { count: 480 }
    }
}

/// What one file may say; [`BaseConfig`] is what it resolves to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BaseFile {
    #[serde(skip_serializing)]
    extends: Option<String>,
    output_dir: PathBuf,
    seed: u64,
    lexicon: Option<PathBuf>,
    prompts: Option<PathBuf>,
    max_turns: usize,
    tokenizer: TokenizerSettings,
    model: ShapeSettings,
    documents: DocumentSettings,
    train: TrainConfig,
    probes: ProbeSettings,
}

impl Default for BaseFile {
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

/// The making of a base model, fully resolved: read by [`make_base`](crate::make_base).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaseConfig {
    /// The Hugging Face folder to be made; relative to the current directory.
    pub output_dir: PathBuf,
    /// Seed of the documents, the first weights and the probes.
    pub seed: u64,
    /// The world's lexicon; the built-in one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lexicon: Option<PathBuf>,
    /// Prompt wordings of the games among the documents; spag-game's defaults when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PathBuf>,
    /// Most turns of a game among the documents and probes.
    pub max_turns: usize,
    /// The tokenizer.
    pub tokenizer: TokenizerSettings,
    /// The model's shape.
    pub model: ShapeSettings,
    /// What it reads.
    pub documents: DocumentSettings,
    /// How it learns.
    pub train: TrainConfig,
    /// What is measured.
    pub probes: ProbeSettings,
}

impl BaseConfig {
    /// Reads `file`, lays `overrides` (each `key.path=value`) over it, and resolves the whole.
    ///
    /// # Errors
    /// Unknown keys and wrong types (with file and line), inputs that are nowhere to be found, and values that cannot
    /// be used.
    pub fn load(file: impl AsRef<Path>, overrides: &[String]) -> Result<Self> {
        let mut layers = Layers::read::<BaseFile>(file.as_ref())?;
        for text in overrides {
            layers.set::<BaseFile>(text)?;
        }
        let defaults = Table::try_from(BaseFile::default()).map_err(|error| Error::Malformed {
            place: "the built-in defaults".to_owned(),
            message: error.to_string(),
        })?;
        resolve(layers.settle(defaults)?, &layers.file)
    }
}

fn resolve(typed: BaseFile, file: &Path) -> Result<BaseConfig> {
    let found =
        |setting, path: &Option<PathBuf>| path.as_deref().map(|path| find_input(setting, path, file)).transpose();
    let config = BaseConfig {
        lexicon: found("lexicon", &typed.lexicon)?,
        prompts: found("prompts", &typed.prompts)?,
        output_dir: typed.output_dir,
        seed: typed.seed,
        max_turns: typed.max_turns,
        tokenizer: typed.tokenizer,
        model: typed.model,
        documents: typed.documents,
        train: typed.train,
        probes: typed.probes,
    };
    let positive = [
        ("max_turns", config.max_turns),
        ("tokenizer.documents", config.tokenizer.documents),
        ("documents.count", config.documents.count),
        ("probes.count", config.probes.count),
    ];
    for (setting, value) in positive {
        if value == 0 {
            return Err(Error::BadSetting { setting, message: "must be at least 1".to_owned() });
        }
    }
    config.train.check()?;
    Ok(config)
}
