//! `spag run CONFIG.toml`: every setting of the loop.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spag_game::JudgeKind;
use spag_model::DeviceChoice;
use spag_rewards::CreditConfig;
use spag_selfplay::limits;
use spag_train::TrainConfig;

use super::layers::{check_training, find_input, load_config, require_ranges};
use super::sections::{EvaluationSettings, ImitationSettings, RewardSettings, SelfPlaySettings, SftSettings};
use crate::error::{Error, Result};

/// Rounds of self-play and training.
const EPOCHS: RangeInclusive<usize> = 0..=1000;
/// SFT samples per game sample.
const SFT_SHARE: RangeInclusive<f64> = 0.0..=100.0;

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
        let layers = load_config::<Self>(file, overrides)?;
        layers.check(Self::check)?;
        let mut config = layers.config;
        config.base_model = find_input("base_model", &config.base_model, file)?;
        for (setting, path) in
            [("lexicon", &mut config.lexicon), ("words", &mut config.words), ("prompts", &mut config.prompts)]
        {
            *path = path.as_deref().map(|path| find_input(setting, path, file)).transpose()?;
        }
        let epochs = config.evaluation.epochs.get_or_insert_with(|| (1..=config.epochs).collect());
        epochs.sort_unstable();
        epochs.dedup();
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
        let or_none = |games: RangeInclusive<usize>| 0..=*games.end();
        require_ranges(&[
            ("max_turns", self.max_turns, limits::TURNS),
            ("epochs", self.epochs, EPOCHS),
            ("imitation.games", self.imitation.games, limits::GAMES),
            ("self_play.games", self.self_play.games, limits::GAMES),
            ("self_play.max_new_tokens", self.self_play.max_new_tokens, limits::NEW_TOKENS),
            ("self_play.games_in_flight", self.self_play.games_in_flight, limits::GAMES_IN_FLIGHT),
            ("evaluation.games", self.evaluation.games, limits::GAMES),
            ("evaluation.self_play_games", self.evaluation.self_play_games, or_none(limits::GAMES)),
            ("evaluation.sample_games", self.evaluation.sample_games, or_none(limits::GAMES)),
            ("self_play.top_k", self.self_play.top_k, limits::TOP_K),
            ("evaluation.top_k", self.evaluation.top_k, limits::TOP_K),
        ])?;
        require_ranges(&[
            ("sft.share", self.sft.share, SFT_SHARE),
            ("rewards.decay_weight", self.rewards.decay_weight, *CreditConfig::DECAY_WEIGHT.start()..=1.0),
        ])?;
        for (setting, value) in [
            ("self_play.temperature", self.self_play.temperature),
            ("evaluation.temperature", self.evaluation.temperature),
        ] {
            if value != 0.0 {
                require_ranges(&[(setting, value, limits::TEMPERATURE)])?;
            }
        }
        for (setting, value) in [("self_play.top_p", self.self_play.top_p), ("evaluation.top_p", self.evaluation.top_p)]
        {
            value.map_or(Ok(()), |value| require_ranges(&[(setting, value, limits::TOP_P)]))?;
        }
        if let Some(epoch) = self.evaluation.epochs.iter().flatten().find(|epoch| !(1..=self.epochs).contains(*epoch)) {
            return Err(Error::BadSetting {
                setting: "evaluation.epochs",
                message: format!("epoch {epoch} does not exist; the run has 1 to {}", self.epochs),
            });
        }
        check_training("imitation.train", &self.imitation.train)?;
        check_training("train", &self.train)
    }
}
