//! What all stages of a run share: the configuration, the ranks and the inputs.

use std::path::Path;
use std::sync::Arc;

use spag_chat::PromptEncoder;
use spag_dist::{LaunchEnv, ProcessGroup, agree, broadcast_text};
use spag_game::games::BestActions;
use spag_game::{Game, PromptSet};
use spag_io::{Progress, PromptFormat, ReasoningFormat, ReasoningRule};
use spag_model::checkpoint::{LoadOptions, load_config, load_quantised, load_tokenizer};
use spag_model::dtype::{DtypeChoice, WeightDtype};
use spag_model::generate::Sampling;
use spag_model::model::{BlockFormat, Quantisation};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig, Tokenizer};
use spag_run::{Model, StageDone};
use spag_selfplay::{AnyPlayer, ModelPlayer};
use spag_world::Lexicon;

use super::run_games::OpenGame;
use super::stage_folder::StageFolder;
use super::words::Words;
use crate::config::{OnlineSettings, Opponent, RunConfig, load_lexicon, load_prompts};
use crate::error::{Error, Result};
use crate::seeds::stage_seed;

/// Shared by all stages of a run.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) ranks: &'a RankContext,
    pub(super) inputs: &'a RunInputs,
    /// The models trained so far, in the order of training.
    pub(super) made: &'a [Model],
}

impl RunContext<'_> {
    /// The seed of a part of a stage, which is noted in its result.
    pub(super) fn seed(&self, stage: &StageFolder, part: &str, done: &mut StageDone) -> u64 {
        let seed = stage_seed(self.config.seed, &format!("{}/{part}", stage.name));
        done.note_seed(part, seed);
        seed
    }

    /// Loads a checkpoint to the run's device, in the number format of `choice`.
    pub(super) fn load(&self, model: &Path, choice: DtypeChoice) -> Result<Checkpoint> {
        let device = self.config.device.open(self.ranks.env.local_rank)?;
        self.load_in(model, choice.resolve(&load_config(model)?, device.device()), None)
    }

    /// As [`RunContext::load`], in a number format, and quantised if a format is given.
    pub(super) fn load_in(&self, model: &Path, dtype: WeightDtype, format: Option<BlockFormat>) -> Result<Checkpoint> {
        let device = self.config.device.open(self.ranks.env.local_rank)?.device().clone();
        let options = LoadOptions { device, dtype };
        let Checkpoint { model, tokenizer } = match format {
            None => Checkpoint::load_with(model, &options)?,
            Some(format) => load_quantised(model, &options, Quantisation::To(format))?.0,
        };
        Ok(Checkpoint { model, tokenizer: tokenizer.with_bos_rule(self.config.add_bos_token) })
    }

    /// A model of the run as a player, with utterances as long as in self-play; that of the first seat, if each has its own.
    pub(super) fn player(&self, model: Model, sampling: Sampling) -> Result<AnyPlayer> {
        self.player_in(&self.config.folder_of(model), sampling)
    }

    /// As [`RunContext::player`], with the folder of the model.
    pub(super) fn player_in(&self, folder: &Path, sampling: Sampling) -> Result<AnyPlayer> {
        self.player_with(folder, sampling, ("self_play.max_new_tokens", self.config.self_play.length.max_new_tokens))
    }

    /// As [`RunContext::player_in`], with the maximum tokens of an utterance and the setting that has them.
    pub(super) fn player_with(
        &self,
        folder: &Path,
        sampling: Sampling,
        (setting, max_new_tokens): (&'static str, usize),
    ) -> Result<AnyPlayer> {
        let checkpoint = self.load(folder, self.config.self_play.dtype)?;
        let (player, games) = self.engine_player(checkpoint, sampling, (setting, max_new_tokens))?;
        let player = AnyPlayer::Model { player: Box::new(player), games, folder: folder.to_owned() };
        Ok(if self.config.self_play.constrain_actions { player.with_held_actions()? } else { player })
    }

    /// A checkpoint as a player, and the number of games that it plays at a time.
    pub(super) fn engine_player(
        &self,
        checkpoint: Checkpoint,
        sampling: Sampling,
        length: (&'static str, usize),
    ) -> Result<(ModelPlayer, usize)> {
        let settings = &self.config.self_play;
        // The processes of a machine share its memory; each GPU is used by one process.
        let on_cpu = checkpoint.model.parameters().device().is_cpu();
        let engines = if on_cpu { self.ranks.env.local_size } else { 1 };
        let model = checkpoint.model.config();
        let longest = self.config.completion_tokens(length.1, model.architecture.max_position_embeddings);
        let max_length = settings.max_length_for(model, longest);
        let engine = settings.engine.for_model(&checkpoint.model, max_length, engines)?;
        Ok((self.player_of(checkpoint, sampling, length, engine)?, engine.max_running))
    }

    /// A checkpoint as a player, with an engine of such limits.
    pub(super) fn player_of(
        &self,
        checkpoint: Checkpoint,
        sampling: Sampling,
        (setting, max_new_tokens): (&'static str, usize),
        engine: EngineConfig,
    ) -> Result<ModelPlayer> {
        let settings = &self.config.self_play;
        let positions = checkpoint.model.config().architecture.max_position_embeddings;
        let longest = self.config.completion_tokens(max_new_tokens, positions);
        if longest >= positions {
            let thought = if longest > max_new_tokens { ", those of reasoning included," } else { "" };
            return Err(Error::BadSetting {
                setting,
                message: format!("{longest} tokens{thought} leave no room for a prompt in a context of {positions}"),
            });
        }
        let generation = GenerationConfig {
            max_new_tokens,
            min_new_tokens: settings.length.min_new_tokens,
            sampling,
            ..GenerationConfig::default()
        };
        let RunConfig { template, reasoning, prompt_format, .. } = self.config;
        Ok(ModelPlayer::load(checkpoint, generation, engine)?.with_reasoning(template, reasoning, *prompt_format)?)
    }
}

/// The ranks of a run. All ranks play and train. Rank 0 makes all decisions and writes all files that do not belong to a
/// rank.
#[derive(Clone)]
pub(super) struct RankContext {
    pub(super) env: LaunchEnv,
    pub(super) group: Arc<dyn ProcessGroup>,
}

impl RankContext {
    /// Checks that all ranks of `group` have the same configuration.
    pub(super) fn new(env: &LaunchEnv, group: Arc<dyn ProcessGroup>, config: &RunConfig) -> Result<Self> {
        agree(&*group, &[("the configuration", config.to_toml()?)])?;
        Ok(Self { env: env.clone(), group })
    }

    pub(super) fn is_rank_0(&self) -> bool {
        self.group.rank() == 0
    }

    /// The decision of rank 0, on every rank.
    pub(super) fn decide(&self, on_rank_0: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let own = if self.is_rank_0() && on_rank_0()? { "yes" } else { "" };
        Ok(broadcast_text(&*self.group, own)? == "yes")
    }

    /// A text of rank 0, on every rank; `None` if it has none.
    pub(super) fn text(&self, on_rank_0: impl FnOnce() -> Result<Option<String>>) -> Result<Option<String>> {
        let own = if self.is_rank_0() { on_rank_0()?.unwrap_or_default() } else { String::new() };
        Ok(Some(broadcast_text(&*self.group, &own)?).filter(|text| !text.is_empty()))
    }

    /// Runs `work` on rank 0 while the others wait.
    pub(super) fn on_rank_0(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_rank_0() {
            work()?;
        }
        self.barrier()
    }

    pub(super) fn barrier(&self) -> Result<()> {
        Ok(self.group.barrier()?)
    }
}

/// Whether the base model thinks before it speaks. One without the template that a run of chats needs is refused before anything is
/// played.
fn thinks(config: &RunConfig) -> spag_chat::Result<bool> {
    let prompts = config.prompt_format;
    if prompts.is_plain() && config.reasoning.format(prompts) == ReasoningFormat::None {
        return Ok(false);
    }
    let encoder = PromptEncoder::new(load_tokenizer(&config.base_model)?);
    let encoder = encoder.with_settings(&config.template, &config.reasoning, prompts)?;
    if prompts == PromptFormat::Chat {
        encoder.template()?;
    }
    Ok(*encoder.reasoning() != ReasoningRule::None)
}

/// Checks what an on-policy run needs of its games and of the model that its divergence is measured from, before anything is played.
fn check_online(online: &OnlineSettings, games: &[OpenGame], config: &RunConfig) -> Result<()> {
    let bad = |setting, message| Err(Error::BadSetting { setting, message });
    let all: Vec<&dyn Game> = games.iter().map(|game| &*game.game).collect();
    online.rewards.check_for(&all).or_else(|error| bad("online.rewards", error.to_string()))?;
    let no_list = |game: &&OpenGame| {
        let state = BestActions::start(&*game.game, 0).ok();
        !game.rules.has_items() && state.and_then(|state| state.legal_actions()).is_none()
    };
    if let (Opponent::Scripted, Some(game)) = (online.opponents.opponent, games.iter().find(no_list)) {
        let message = format!("no scripted player knows {}; use self, fixed or pool", game.rules.game);
        return bad("online.opponent", message);
    }
    let Some(reference) = &online.reference.reference_model else { return Ok(()) };
    let [own, other] = [&config.base_model, reference].map(load_tokenizer);
    let (own, other) = (own?, other?);
    let tokens = |tokenizer: &Tokenizer| -> Vec<Option<String>> {
        (0..tokenizer.vocab_size() as u32).map(|id| tokenizer.token(id)).collect()
    };
    if tokens(&own) != tokens(&other) {
        let message = format!(
            "{} has another tokenizer than the base model, so its log-probabilities are of other tokens; use a model of the same \
             family",
            reference.display()
        );
        return bad("online.reference_model", message);
    }
    let [own, other] = [&config.base_model, reference].map(load_config);
    if own?.architecture != other?.architecture {
        let message = format!("{} has another architecture than the base model", reference.display());
        return bad("online.reference_model", message);
    }
    Ok(())
}

/// The games, prompt wordings and lexicon of a run.
pub(super) struct RunInputs {
    pub(super) prompts: PromptSet,
    /// The games that are played, at least one.
    pub(super) games: Vec<OpenGame>,
    /// The small world, if the run uses it.
    pub(super) lexicon: Option<Lexicon>,
    /// Whether the base model thinks before it speaks.
    pub(super) thinks: bool,
}

impl RunInputs {
    /// Reads the inputs. A list with repeated words or blank lines is shown.
    pub(super) fn load(config: &RunConfig, progress: &mut dyn Progress) -> Result<Self> {
        let prompts = load_prompts(config.prompts.as_deref(), config.prompt_format)?;
        let thinks = thinks(config).map_err(spag_selfplay::Error::from)?;
        let lexicon = config.uses_small_world().then(|| load_lexicon(config.lexicon.as_deref())).transpose()?;
        let games = OpenGame::all(config, &prompts, lexicon.as_ref(), progress)?;
        if let Some(online) = &config.online {
            check_online(online, &games, config)?;
        }
        Ok(Self { prompts, games, lexicon, thinks })
    }

    /// The target words, of the game that has some.
    pub(super) fn words(&self) -> Option<&Words> {
        self.games.iter().find(|game| game.rules.has_items()).map(|game| &game.words)
    }

    /// The small world.
    ///
    /// # Errors
    /// The run does not use it.
    pub(super) fn lexicon(&self) -> Result<&Lexicon> {
        self.lexicon.as_ref().ok_or_else(|| Error::BadSetting {
            setting: "lexicon",
            message: "this source needs the small world".to_owned(),
        })
    }
}

/// Adds the name of the stage to the names of its parts.
pub(super) struct StageProgress<'a> {
    pub(super) stage: &'a str,
    pub(super) inner: &'a mut dyn Progress,
}

impl Progress for StageProgress<'_> {
    fn begin(&mut self, what: &str, total: u64) {
        self.inner.begin(&format!("{}: {what}", self.stage), total);
    }

    fn resume(&mut self, what: &str, total: u64, done: u64) {
        self.inner.resume(&format!("{}: {what}", self.stage), total, done);
    }

    fn advance(&mut self, done: u64, note: &str) {
        self.inner.advance(done, note);
    }

    fn end(&mut self) {
        self.inner.end();
    }

    fn message(&mut self, line: &str) {
        self.inner.message(line);
    }
}
