//! `spag run CONFIG.toml`: every setting of the loop.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spag_game::JudgeKind;
use spag_model::DeviceChoice;
use spag_train::TrainConfig;

use super::layers::{find_input, load_config, require_positive};
use super::sections::{EvaluationSettings, ImitationSettings, RewardSettings, SelfPlaySettings, SftSettings};
use crate::error::{Error, Result};

/// The configuration of a run, in which [`RunConfig::load`] has set every value and found every input.
///
/// Written to the run folder as `config.resolved.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// Another configuration, relative to this one, that provides missing settings. `None` after loading.
    #[serde(skip_serializing)]
    pub extends: Option<String>,
    /// The folder of all files of the run, relative to the current directory.
    pub run_dir: PathBuf,
    /// Seed of everything except the evaluation games.
    pub seed: u64,
    /// The device for playing and training.
    pub device: DeviceChoice,
    /// Hugging Face folder of the base model.
    pub base_model: PathBuf,
    /// The lexicon; the built-in one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lexicon: Option<PathBuf>,
    /// Target words, one a line; all words of the lexicon if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<PathBuf>,
    /// Prompt wordings; the defaults of spag-game if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PathBuf>,
    /// The judge.
    pub judge: JudgeKind,
    /// Maximum turns of a game; a turn is one utterance of each player.
    pub max_turns: usize,
    /// Rounds of self-play and training: SPAG-1 … SPAG-`epochs`.
    pub epochs: usize,
    /// Imitation of scripted players.
    pub imitation: ImitationSettings,
    /// Self-play.
    pub self_play: SelfPlaySettings,
    /// Credit assignment.
    pub rewards: RewardSettings,
    /// General text among the samples.
    pub sft: SftSettings,
    /// Training after each round of self-play, with the model before it as the reference. The seed is derived from the
    /// run's.
    pub train: TrainConfig,
    /// Evaluation of the trained models. `epochs` is `Some` after loading.
    pub evaluation: EvaluationSettings,
}

impl Default for RunConfig {
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

impl RunConfig {
    /// Reads `file`, applies `overrides` (each `key.path=value`), finds inputs and checks all values.
    ///
    /// # Errors
    /// Unknown keys and wrong types (with file and line), missing inputs, and invalid values.
    pub fn load(file: impl AsRef<Path>, overrides: &[String]) -> Result<Self> {
        let file = file.as_ref();
        let mut config: Self = load_config(file, overrides)?;
        config.base_model = find_input("base_model", &config.base_model, file)?;
        for (setting, path) in
            [("lexicon", &mut config.lexicon), ("words", &mut config.words), ("prompts", &mut config.prompts)]
        {
            *path = path.as_deref().map(|path| find_input(setting, path, file)).transpose()?;
        }
        config.check()?;
        let epochs = config.evaluation.epochs.get_or_insert_with(|| (1..=config.epochs).collect());
        epochs.sort_unstable();
        epochs.dedup();
        if let Some(epoch) = epochs.iter().find(|e| !(1..=config.epochs).contains(*e)) {
            return Err(Error::BadSetting {
                setting: "evaluation.epochs",
                message: format!("epoch {epoch} does not exist; the run has 1 to {}", config.epochs),
            });
        }
        Ok(config)
    }

    /// The configuration as TOML, with every setting.
    ///
    /// # Errors
    /// A value that TOML cannot represent.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|error| Error::Malformed {
            place: "the resolved configuration".to_owned(),
            message: error.to_string(),
        })
    }

    fn check(&self) -> Result<()> {
        require_positive(&[
            ("max_turns", self.max_turns),
            ("imitation.games", self.imitation.games),
            ("self_play.games", self.self_play.games),
            ("self_play.max_new_tokens", self.self_play.max_new_tokens),
            ("self_play.games_in_flight", self.self_play.games_in_flight),
            ("evaluation.games", self.evaluation.games),
        ])?;
        for (setting, value) in [
            ("self_play.temperature", self.self_play.temperature),
            ("evaluation.temperature", self.evaluation.temperature),
            ("sft.share", self.sft.share),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                let message = format!("must be a number of 0 or more, not {value}");
                return Err(Error::BadSetting { setting, message });
            }
        }
        let decay = self.rewards.decay_weight;
        if !(decay > 0.0 && decay <= 1.0) {
            let message = format!("must be above 0 and at most 1, not {decay}");
            return Err(Error::BadSetting { setting: "rewards.decay_weight", message });
        }
        self.imitation.train.check()?;
        Ok(self.train.check()?)
    }
}
