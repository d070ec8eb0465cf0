//! `spag run CONFIG.toml`: every setting of the loop.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spag_game::JudgeKind;
use spag_model::DeviceChoice;
use spag_train::TrainConfig;
use toml::Table;

use super::layers::Layers;
use super::paths::find_input;
use super::sections::{EvaluationSettings, ImitationSettings, RewardSettings, SelfPlaySettings, SftSettings};
use crate::error::{Error, Result};

/// What one file may say. Everything may be left out; [`RunConfig`] is what it resolves to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RunFile {
    /// Another configuration, relative to this one, whose settings hold where this one is silent.
    #[serde(skip_serializing)]
    extends: Option<String>,
    run_dir: PathBuf,
    seed: u64,
    device: DeviceChoice,
    base_model: PathBuf,
    lexicon: Option<PathBuf>,
    words: Option<PathBuf>,
    prompts: Option<PathBuf>,
    judge: JudgeKind,
    max_turns: usize,
    epochs: usize,
    imitation: ImitationSettings,
    self_play: SelfPlaySettings,
    rewards: RewardSettings,
    sft: SftSettings,
    train: TrainConfig,
    evaluation: EvaluationSettings,
}

impl Default for RunFile {
    fn default() -> Self {
        Self {
            extends: None,
            run_dir: PathBuf::from("runs/default"),
            seed: 0,
            device: DeviceChoice::Auto,
            base_model: PathBuf::from("data/tiny-llama"),
            lexicon: None,
            words: None,
            prompts: None,
            judge: JudgeKind::Paper,
            max_turns: 5,
            epochs: 3,
            imitation: ImitationSettings::default(),
            self_play: SelfPlaySettings::default(),
            rewards: RewardSettings::default(),
            sft: SftSettings::default(),
            train: TrainConfig {
                method: spag_train::TrainMethod::OfflinePo,
                lm_kl_coeff: 0.2,
                lm_sft_coeff: 0.5,
                ..TrainConfig::default()
            },
            evaluation: EvaluationSettings::default(),
        }
    }
}

/// A run, fully resolved: every setting has its value and every input has been found.
///
/// Made by [`RunConfig::load`], read by [`run`](crate::run()), and written into the run folder as
/// `config.resolved.toml`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunConfig {
    /// The folder that gets every file of the run; relative to the current directory.
    pub run_dir: PathBuf,
    /// Seed of everything but the evaluation games.
    pub seed: u64,
    /// The device that plays and trains.
    pub device: DeviceChoice,
    /// Hugging Face folder of the model that the loop starts from.
    pub base_model: PathBuf,
    /// The world's lexicon; the built-in one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lexicon: Option<PathBuf>,
    /// Target words, one a line; the lexicon's own words when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<PathBuf>,
    /// Prompt wordings; spag-game's defaults when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PathBuf>,
    /// The referee's reading of the rules.
    pub judge: JudgeKind,
    /// Most turns of a game; a turn is one utterance of each player.
    pub max_turns: usize,
    /// Rounds of self-play and training: SPAG-1 … SPAG-`epochs`.
    pub epochs: usize,
    /// Learning the game from scripted players.
    pub imitation: ImitationSettings,
    /// The model against itself.
    pub self_play: SelfPlaySettings,
    /// Credit for the winner's utterances.
    pub rewards: RewardSettings,
    /// General text mixed into the games.
    pub sft: SftSettings,
    /// Training after each round of self-play; the model before it is the reference. The seed is drawn from the run's.
    pub train: TrainConfig,
    /// Measuring the trained models; `epochs` is always filled here.
    pub evaluation: EvaluationSettings,
}

impl RunConfig {
    /// Reads `file`, lays `overrides` (each `key.path=value`) over it, and resolves the whole.
    ///
    /// # Errors
    /// Unknown keys and wrong types (with file and line), inputs that are nowhere to be found, and values that cannot
    /// be used.
    pub fn load(file: impl AsRef<Path>, overrides: &[String]) -> Result<Self> {
        let mut layers = Layers::read::<RunFile>(file.as_ref())?;
        for text in overrides {
            layers.set::<RunFile>(text)?;
        }
        let defaults = Table::try_from(RunFile::default()).map_err(|error| Error::Malformed {
            place: "the built-in defaults".to_owned(),
            message: error.to_string(),
        })?;
        resolve(layers.settle(defaults)?, &layers.file)
    }

    /// The configuration as TOML, every setting included.
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|error| Error::Malformed {
            place: "the resolved configuration".to_owned(),
            message: error.to_string(),
        })
    }
}

fn resolve(typed: RunFile, file: &Path) -> Result<RunConfig> {
    let found =
        |setting, path: &Option<PathBuf>| path.as_deref().map(|path| find_input(setting, path, file)).transpose();
    let mut config = RunConfig {
        base_model: find_input("base_model", &typed.base_model, file)?,
        lexicon: found("lexicon", &typed.lexicon)?,
        words: found("words", &typed.words)?,
        prompts: found("prompts", &typed.prompts)?,
        run_dir: typed.run_dir,
        seed: typed.seed,
        device: typed.device,
        judge: typed.judge,
        max_turns: typed.max_turns,
        epochs: typed.epochs,
        imitation: typed.imitation,
        self_play: typed.self_play,
        rewards: typed.rewards,
        sft: typed.sft,
        train: typed.train,
        evaluation: typed.evaluation,
    };
    check(&config)?;
    config.imitation.train.check()?;
    config.train.check()?;
    let epochs = match config.evaluation.epochs.take() {
        Some(mut epochs) => {
            epochs.sort_unstable();
            epochs.dedup();
            epochs
        }
        None => (1..=config.epochs).collect(),
    };
    if let Some(epoch) = epochs.iter().find(|e| !(1..=config.epochs).contains(*e)) {
        return Err(Error::BadSetting {
            setting: "evaluation.epochs",
            message: format!("there is no epoch {epoch}; the run has 1 to {}", config.epochs),
        });
    }
    config.evaluation.epochs = Some(epochs);
    Ok(config)
}

fn check(config: &RunConfig) -> Result<()> {
    let positive = [
        ("max_turns", config.max_turns),
        ("imitation.games", config.imitation.games),
        ("self_play.games", config.self_play.games),
        ("self_play.max_new_tokens", config.self_play.max_new_tokens),
        ("self_play.games_in_flight", config.self_play.games_in_flight),
        ("evaluation.games", config.evaluation.games),
    ];
    for (setting, value) in positive {
        if value == 0 {
            return Err(Error::BadSetting { setting, message: "must be at least 1".to_owned() });
        }
    }
    let not_negative = [
        ("self_play.temperature", config.self_play.temperature),
        ("evaluation.temperature", config.evaluation.temperature),
        ("sft.share", config.sft.share),
    ];
    for (setting, value) in not_negative {
        if !(value.is_finite() && value >= 0.0) {
            return Err(Error::BadSetting { setting, message: format!("must be a number of 0 or more, not {value}") });
        }
    }
    if !(config.rewards.decay_weight > 0.0 && config.rewards.decay_weight <= 1.0) {
        return Err(Error::BadSetting {
            setting: "rewards.decay_weight",
            message: format!("must lie in (0, 1], not {}", config.rewards.decay_weight),
        });
    }
    Ok(())
}
