//! What all stages of a run share: the configuration, the ranks and the inputs.

use std::path::Path;
use std::sync::Arc;

use spag_dist::queue::Queue;
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup, agree, broadcast_text};
use spag_game::{PromptSet, WordList};
use spag_io::Progress;
use spag_model::{
    Checkpoint, DtypeChoice, EngineConfig, GenerationConfig, LoadOptions, MemoryBudget, ModelConfig, Sampling,
};
use spag_selfplay::ModelPlayer;
use spag_world::Lexicon;

use super::folder::StageFolder;
use crate::config::{RunConfig, load_world};
use crate::error::{Error, Result};

/// Shared by all stages of a run.
#[derive(Clone, Copy)]
pub(super) struct RunContext<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) ranks: &'a RankContext,
    pub(super) inputs: &'a RunInputs,
}

impl RunContext<'_> {
    /// Loads a checkpoint to the run's device.
    pub(super) fn load(&self, model: &Path) -> Result<Checkpoint> {
        let device = self.config.device.open(self.ranks.env.local_rank)?.device().clone();
        let dtype = if device.is_cpu() {
            LoadOptions::default().dtype
        } else {
            DtypeChoice::Auto.resolve(&ModelConfig::from_file(model.join("config.json"))?, &device)
        };
        Ok(Checkpoint::load_with(model, &LoadOptions { device, dtype })?)
    }

    /// The model of a stage as a player.
    pub(super) fn player(&self, stage: &StageFolder, sampling: Sampling) -> Result<ModelPlayer> {
        let checkpoint = self.load(&stage.model())?;
        let max_length = checkpoint.model.config().architecture.max_position_embeddings;
        let max_new_tokens = self.config.self_play.max_new_tokens;
        if max_new_tokens >= max_length {
            return Err(Error::BadSetting {
                setting: "self_play.max_new_tokens",
                message: format!("{max_new_tokens} tokens leave no room for a prompt in a context of {max_length}"),
            });
        }
        let generation =
            GenerationConfig { max_new_tokens, min_new_tokens: 1, sampling, ..GenerationConfig::default() };
        let own = MemoryBudget::for_model(&checkpoint.model)?;
        // The processes of a machine share its memory; each GPU is used by one process.
        let on_cpu = checkpoint.model.parameters().device().is_cpu();
        let memory = if on_cpu { own.split(self.ranks.env.local_size) } else { own };
        let engine = EngineConfig::new(checkpoint.model.config(), self.config.self_play.games_in_flight, memory);
        Ok(ModelPlayer::load(checkpoint, generation, engine)?)
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

    /// A queue of `items` items; `None` for a single process.
    pub(super) fn queue(&self, task: &str, items: usize) -> Result<Option<Queue>> {
        if self.group.size() == 1 {
            return Ok(None);
        }
        let options = JoinOptions::detect()?;
        Ok(Some(Queue::open_beside(&*self.group, &self.env, &options, task, items)?))
    }
}

/// The words, prompt wordings and lexicon of a run.
pub(super) struct RunInputs {
    pub(super) words: Vec<String>,
    pub(super) prompts: PromptSet,
    pub(super) lexicon: Lexicon,
}

impl RunInputs {
    /// Reads the inputs. A list with repeated words or blank lines is shown.
    pub(super) fn load(config: &RunConfig, progress: &mut dyn Progress) -> Result<Self> {
        let (lexicon, prompts) = load_world(config.lexicon.as_deref(), config.prompts.as_deref())?;
        let words: Vec<String> = match &config.words {
            Some(path) => {
                let list = WordList::read(path)?;
                if !list.is_plain() {
                    progress.message(&format!("{}: {list}", path.display()));
                }
                list.words
            }
            None => lexicon.words().map(str::to_owned).collect(),
        };
        let bad = |message| Error::BadSetting { setting: "words", message };
        if words.is_empty() {
            return Err(bad("the list has no words".to_owned()));
        }
        if let Some(word) = words.iter().find(|word| lexicon.get(word).is_none()) {
            return Err(bad(format!(
                "the lexicon has no entry for {word:?}, which the scripted players must describe"
            )));
        }
        Ok(Self { words, prompts, lexicon })
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
