//! `spag run CONFIG.toml`: every setting of the loop.

use std::path::{Path, PathBuf};

use spag_chat::{ReasoningSettings, TemplateSettings};
use spag_io::{PromptFormat, ReasoningFormat};
use spag_model::ModelConfig;
use spag_model::tokenizer::BosRule;
use spag_ops::DeviceChoice;
use spag_rewards::{CreditConfig, CreditRule, RewardNorm, SampleReasoning};
use spag_selfplay::{GameSettings, GameShare, limits::TURNS};
use spag_train::{TrainConfig, TrainMethod};

use super::evaluation::{BenchmarkSettings, EvaluationSettings, HardwareSettings, StopRules};
use super::inputs::InputFinder;
use super::layers::load_config;
use super::missing::MissingInput;
use super::online::{OnlineSettings, RunMethod};
use super::online_choices::Opponent;
use super::play::SelfPlaySettings;
use super::sources::{ImitationSettings, ImitationSource, SftSettings, SftShare, WordSettings};
use super::train::TrainSettings;
use crate::error::{Error, Result};

spag_io::settings! {
    /// The configuration of a run, in which [`RunConfig::load`] has set every value and found every input.
    ///
    /// Written to the run folder as `config.resolved.toml`.
    pub table RunConfig {
        /// Another configuration, relative to this one, that provides missing settings. Left out of the resolved settings.
        #[serde(skip_serializing)]
        pub extends: Option<String>;
        /// The folder of all files of the run, relative to the current directory.
        pub run_dir: PathBuf = PathBuf::from("runs/default");
        /// Seed of everything except the evaluation games.
        pub seed: u64;
        /// The device for playing and training.
        pub device: DeviceChoice;
        /// Hugging Face folder of the base model.
        pub base_model: PathBuf = PathBuf::from("data/tiny-llama");
        /// Whether prompts, samples and questions of benchmarks begin with BOS; as the base model's tokenizer says if absent.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub add_bos_token: BosRule;
        /// The lexicon of the small world; the built-in one if absent. Only read by runs that use the small world.
        pub lexicon: Option<PathBuf>;
        /// Prompt wordings; the defaults of spag-game if absent.
        pub prompts: Option<PathBuf>;
        /// Format of prompts, everywhere in the run: `plain` is a text, `chat` is messages for the models' own chat template.
        #[serde(skip_serializing_if = "PromptFormat::is_plain")]
        pub prompt_format: PromptFormat = PromptFormat::Plain;
        /// Maximum turns of a game; a turn is one utterance of each player.
        pub max_turns: usize [TURNS] = 5;
        /// `offline`: rounds of self-play and training; `online`: updates on games of the model as it is.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub method: RunMethod;
        /// Rounds of self-play and training: SPAG-1 … SPAG-`epochs`. With `method = "online"`, the models that are measured, which
        /// follow from `[online]`.
        pub epochs: usize [0..=1000] = 3;
        /// Several games, each with its share of all games, in place of `game`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub games: Vec<GameShare>;
        /// The target words.
        pub words: WordSettings;
        /// Imitation of strong players.
        pub imitation: ImitationSettings;
        /// Self-play.
        pub self_play: SelfPlaySettings;
        /// Updates of an on-policy run: of one with `method = "online"`.
        pub online: Option<OnlineSettings>;
        /// Credit assignment.
        pub rewards: RewardSettings;
        /// General text among the samples.
        pub sft: SftSettings;
        /// Training after each round of self-play, with the model before it as the reference. The seed is derived from the
        /// run's.
        pub train: TrainSettings = TrainSettings::new(TrainConfig {
            method: TrainMethod::OfflinePo, lm_kl_coeff: 0.2, lm_sft_coeff: 0.5, ..TrainConfig::default()
        });
        /// Evaluation of the trained models.
        pub evaluation: EvaluationSettings;
        /// Benchmarks; none if absent.
        pub benchmarks: Option<BenchmarkSettings>;
        /// Rules that stop the run.
        pub stop_when: StopRules;
        /// The hardware that is planned for.
        pub hardware: HardwareSettings;
    } + {
        /// The game.
        pub rules: GameSettings;
        /// Variables of the models' chat template.
        pub template: TemplateSettings;
        /// How models think before they speak.
        pub reasoning: ReasoningSettings;
    }

    /// `[rewards]`: credit assignment to the winner's utterances.
    pub table RewardSettings {
        /// γ: the reward of the winner's k-th utterance is proportional to γ⁻ᵏ.
        pub decay_weight: f64 [*CreditConfig::DECAY_WEIGHT.start()..=1.0] = 0.8;
        /// `sum`: a game's rewards sum to 1, as in the paper. `mean`: they average 1.
        pub reward_norm: RewardNorm = RewardNorm::Sum;
        /// `winner`: the winner's utterances alone, the paper's. `signed`: also the loser's with negative rewards, less the mean of
        /// each seat. `drawn`: as `winner`, for a player of each decided game that is drawn, a control.
        pub credit: CreditRule;
    }
}

/// The setting of the base model.
pub(crate) const BASE_MODEL: &str = "base_model";

impl RunConfig {
    /// Reads `file`, applies `overrides` (each `key.path=value`), finds inputs and checks all values.
    ///
    /// # Errors
    /// Unknown keys and wrong types (with file and line), missing inputs (all of them), and invalid values.
    pub fn load(file: impl AsRef<Path>, overrides: &[String]) -> Result<Self> {
        match Self::load_to_plan(file, overrides)? {
            (config, missing) if missing.is_empty() => Ok(config),
            (_, inputs) => Err(Error::MissingInputs { inputs }),
        }
    }

    /// As [`RunConfig::load`], with the inputs that do not exist, whose settings stay as they are. If the base model is one of them and
    /// the folder of the configuration has one of its name (`configs/llama2-7b` beside `configs/llama2-7b.toml`) with a
    /// `config.json`, `base_model` is that folder.
    ///
    /// # Errors
    /// As [`RunConfig::load`], except missing inputs.
    pub fn load_to_plan(file: impl AsRef<Path>, overrides: &[String]) -> Result<(Self, Vec<MissingInput>)> {
        let file = file.as_ref();
        let layers = load_config::<Self>(file, overrides)?;
        layers.check(Self::check)?;
        if let Some(setting) = ["game", "game_options"].into_iter().find(|key| layers.sets(key))
            && !layers.config.games.is_empty()
        {
            let message = "[[games]] names the games of this run; remove one of the two".to_owned();
            return Err(Error::BadSetting { setting, message });
        }
        let mut config = layers.config;
        if let (RunMethod::Online, online) = (config.method, &mut config.online) {
            config.epochs = online.get_or_insert_default().parts();
        }
        config.check_sources()?;
        let mut inputs = InputFinder::new(file);
        inputs.find(BASE_MODEL, &mut config.base_model);
        let shape = file.with_extension("");
        if !inputs.missing.is_empty() && shape.join("config.json").is_file() {
            config.base_model = shape;
        }
        for (setting, path) in config.optional_inputs() {
            path.iter_mut().for_each(|path| inputs.find(setting, path));
        }
        if let Some(online) = &mut config.online
            && online.opponent_endpoint()?.is_none()
            && let Some(model) = &mut online.opponents.opponent_model
        {
            let mut folder = PathBuf::from(&*model);
            inputs.find("online.opponent_model", &mut folder);
            *model = folder.display().to_string();
        }
        if let Some(folder) = config.online.as_mut().and_then(|online| online.reference.reference_model.as_mut()) {
            inputs.find("online.reference_model", folder);
        }
        config.games.iter_mut().flat_map(|game| &mut game.data).for_each(|path| inputs.find("games.data", path));
        for (setting, train) in [
            ("imitation.train.eval_data_path", &mut config.imitation.train),
            ("train.eval_data_path", &mut config.train),
        ] {
            train.job.eval_data_path.iter_mut().for_each(|path| inputs.find(setting, path));
        }
        if let Some(benchmarks) = &mut config.benchmarks {
            if !spag_eval::is_built_in(&benchmarks.tasks) {
                inputs.find("benchmarks.tasks", &mut benchmarks.tasks);
            }
            benchmarks.data_dir.iter_mut().for_each(|folder| inputs.find("benchmarks.data_dir", folder));
        }
        let epochs = config.evaluation.epochs.get_or_insert_with(|| (1..=config.epochs).collect());
        epochs.sort_unstable();
        epochs.dedup();
        Ok((config, inputs.missing))
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

    /// Whether the scripted players are imitated or played against.
    pub(crate) fn has_scripted_players(&self) -> bool {
        let opponent = self.online.as_ref().map(|online| online.opponents.opponent);
        self.imitation.source.has(ImitationSource::Scripted) || opponent == Some(Opponent::Scripted)
    }

    /// Whether the run uses the lexicon of the small world: it plays its words, imitates its players or trains on its texts.
    pub fn uses_small_world(&self) -> bool {
        let has_texts = self.sft.share != SftShare::PerSample(0.0) || !self.sft.alone.is_empty();
        let texts = self.sft.file.is_none() && has_texts;
        let scripted = self.has_scripted_players();
        let has_items = self.run_games().iter().any(|game| game.rules.has_items());
        let words = has_items && self.words.file.is_none();
        self.lexicon.is_some() || words || scripted || texts
    }

    /// Tokens of a completion that says `said` tokens, at most, by a model with this many positions.
    pub fn completion_tokens(&self, said: usize, positions: usize) -> usize {
        self.reasoning.completion_tokens(self.prompt_format, said, positions)
    }

    /// How samples have the reasoning of games. That of records which were played elsewhere is kept in a run without reasoning, too.
    pub fn sample_reasoning(&self) -> SampleReasoning {
        let format = self.reasoning.reasoning.unwrap_or(ReasoningFormat::Think);
        SampleReasoning::new(format, self.template.reasoning_tags.clone(), self.reasoning.keep_reasoning)
    }

    /// Tokens of a prompt with the longest completion of self-play, at most.
    pub fn max_play_length(&self, model: &ModelConfig) -> usize {
        let positions = model.architecture.max_position_embeddings;
        self.self_play.max_length_for(model, self.completion_tokens(self.self_play.length.max_new_tokens, positions))
    }

    /// Files other than the base model with the names of their settings.
    fn optional_inputs(&mut self) -> [(&'static str, &mut Option<PathBuf>); 7] {
        [
            ("lexicon", &mut self.lexicon),
            ("prompts", &mut self.prompts),
            ("words.file", &mut self.words.file),
            ("imitation.file", &mut self.imitation.file),
            ("sft.file", &mut self.sft.file),
            ("imitation.train.deepspeed", &mut self.imitation.train.job.deepspeed),
            ("train.deepspeed", &mut self.train.job.deepspeed),
        ]
    }

    /// The configuration without its missing inputs, which leaves built-in ones.
    pub(crate) fn without(&self, missing: &[MissingInput]) -> Self {
        let is_missing = |setting| missing.iter().any(|input| input.setting == setting);
        let mut rest = self.clone();
        if is_missing(BASE_MODEL) {
            // The base model's tokenizer is asked for its template otherwise.
            rest.prompt_format = PromptFormat::Plain;
        }
        for (setting, path) in rest.optional_inputs() {
            path.take_if(|_| is_missing(setting));
        }
        rest
    }

    /// Inputs whose contents must not change while the run lasts, with the names that the run folder has for them.
    pub(crate) fn inputs(&self) -> Vec<(String, PathBuf)> {
        let mut inputs = vec![("base_model".to_owned(), self.base_model.clone())];
        for (setting, path) in self.clone().optional_inputs() {
            // Formerly a setting itself.
            let name = if setting == "words.file" { "words" } else { setting };
            inputs.extend(path.take().map(|path| (name.to_owned(), path)));
        }
        for (game, folder) in self.games.iter().zip(GameShare::folders(&self.games)) {
            inputs.extend(game.data.clone().map(|path| (format!("games.{folder}.data"), path)));
        }
        inputs
    }
}
