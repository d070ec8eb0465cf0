//! Opening a learner: the model or the checkpoint that it begins with, its share of memory and its learning rates. Jobs over files
//! and on-policy runs open theirs here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spag_dist::{LaunchEnv, ProcessGroup, broadcast_text};
use spag_model::checkpoint::{LoadOptions, check_checkpoint, load_tokenizer};
use spag_model::tokenizer::BosRule;
use spag_model::{ModelConfig, Tokenizer};
use spag_ops::OpenDevice;

use crate::adapted::Frozen;
use crate::checkpoint::SavedRun;
use crate::config::{JobSettings, Optim, ShardingRequest, TrainConfig};
use crate::deepspeed::{DeepSpeed, RunFacts};
use crate::error::{Error, Result};
use crate::learner::{Learner, ModelShard};
use crate::memory::{Beside, Fitted, fit};

/// The files that a learner begins with.
pub(crate) struct Beginning {
    /// Folder of the model, or of the weights under an adapter.
    pub(crate) weights: PathBuf,
    /// Folder of the adapter that training goes on with.
    adapter: Option<PathBuf>,
    /// The checkpoint that training goes on from.
    pub(crate) saved: Option<SavedRun>,
}

impl Beginning {
    /// `checkpoint` is that of rank 0, from which all ranks go on. Without one they begin with `model` and, if the settings train an
    /// adapter, with `adapter`.
    pub(crate) fn find(
        group: &dyn ProcessGroup,
        config: &TrainConfig,
        (model, adapter): (&Path, Option<&Path>),
        checkpoint: Option<PathBuf>,
    ) -> Result<Self> {
        let named = checkpoint.map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
        let named = broadcast_text(group, &named)?;
        let saved = match (named.as_str(), group.rank()) {
            ("", _) => None,
            (dir, 0) => Some(SavedRun::open(dir)?),
            (dir, _) => Some(SavedRun::open_unchecked(dir)?),
        };
        // The checkpoints of an adapter have no model.
        let resumed = saved.as_ref().map(SavedRun::dir);
        let (weights, adapter) = match config.lora_r {
            Some(_) => (model, resumed.or(adapter)),
            None => (resumed.unwrap_or(model), None),
        };
        Ok(Self { weights: weights.to_owned(), adapter: adapter.map(Path::to_owned), saved })
    }

    /// The tokenizer of the model.
    pub(crate) fn tokenizer(&self, bos: BosRule) -> Result<Tokenizer> {
        Ok(load_tokenizer(&self.weights)?.with_bos_rule(bos))
    }

    /// Chooses what is sharded, where it is stored and which activations are kept, by free memory where that is left open.
    ///
    /// # Errors
    /// A DeepSpeed file that contradicts the settings, or too little memory.
    pub(crate) fn plan<'a>(
        &'a self,
        config: &'a TrainConfig,
        steps: usize,
        sharding: &JobSettings,
        ranks: Ranks<'a>,
    ) -> Result<LearnerPlan<'a>> {
        let Ranks { device, env, group, beside, shared } = ranks;
        let architecture = check_checkpoint(&self.weights)?;
        let world_size = group.size();
        let run = RunFacts { config, world_size, total_steps: steps };
        let deepspeed = sharding.deepspeed.as_deref().map(|file| load_deepspeed(file, &run)).transpose()?;
        let file = deepspeed.as_ref().map(DeepSpeed::sharding_plan);
        let JobSettings { zero_stage, shard_within, offload_optimizer, offload_param, .. } = sharding;
        let request = ShardingRequest {
            within: shard_within.unwrap_or_default(),
            ..ShardingRequest::new(*zero_stage, *offload_optimizer, offload_param.unwrap_or_default(), file)?
        };
        let (fitted, frozen) = match shared {
            // The plan of the first learner has room for this one.
            Some(SharedBase { frozen, fitted }) => (fitted, Some(frozen)),
            None => (fit(&architecture, config, request, (world_size, env.local_size), beside, device)?, None),
        };
        let options = LoadOptions { device: device.device().clone(), dtype: config.dtype() };
        Ok(LearnerPlan {
            beginning: self,
            config: config.clone().with_activations(fitted.activations),
            steps,
            architecture,
            fitted,
            deepspeed,
            options,
            group,
            frozen,
        })
    }
}

/// Where a learner is opened.
pub(crate) struct Ranks<'a> {
    /// This rank's device.
    pub(crate) device: &'a OpenDevice,
    pub(crate) env: &'a LaunchEnv,
    pub(crate) group: Arc<dyn ProcessGroup>,
    /// What is beside the learner on the device.
    pub(crate) beside: Beside,
    /// The learner whose frozen weights this one shares, if there is one.
    pub(crate) shared: Option<SharedBase<'a>>,
}

/// A learner of an adapter, over whose frozen weights another one is opened.
#[derive(Clone, Copy)]
pub(crate) struct SharedBase<'a> {
    pub(crate) frozen: &'a Frozen,
    /// What its plan of memory has chosen.
    pub(crate) fitted: Fitted,
}

/// A learner before its weights are loaded.
pub(crate) struct LearnerPlan<'a> {
    beginning: &'a Beginning,
    /// With the activations that the plan of memory has chosen.
    pub(crate) config: TrainConfig,
    steps: usize,
    group: Arc<dyn ProcessGroup>,
    /// The weights under the adapter, if another learner has them in memory.
    frozen: Option<&'a Frozen>,
    /// The model.
    pub(crate) architecture: ModelConfig,
    /// What the plan of memory has chosen.
    pub(crate) fitted: Fitted,
    pub(crate) deepspeed: Option<DeepSpeed>,
    /// How the weights are loaded.
    pub(crate) options: LoadOptions,
}

impl LearnerPlan<'_> {
    /// Loads this rank's share. `restore` gives it the state of the checkpoint, if training goes on from one.
    ///
    /// # Errors
    /// A model or a checkpoint that cannot be read or is not finite, or a lost rank.
    pub(crate) fn open_learner(&self, restore: impl FnOnce(&SavedRun, &mut Learner) -> Result<()>) -> Result<Learner> {
        let Beginning { weights, adapter, saved } = self.beginning;
        let (plan, group) = (self.fitted.sharding, self.group.clone());
        let shard = ModelShard { dir: weights, adapter: adapter.as_deref(), options: &self.options, plan, group };
        let scheduler = self.deepspeed.as_ref().and_then(|file| file.scheduler.clone());
        let learner = Learner::load_over(self.frozen, shard, &self.config, self.steps)?;
        let mut learner = learner.with_scheduler(scheduler);
        if let Some(saved) = saved {
            restore(saved, &mut learner)?;
        }
        match learner.is_finite()? {
            true => Ok(learner),
            false => Err(Error::NotFiniteModel { path: adapter.as_ref().unwrap_or(weights).clone() }),
        }
    }
}

/// The settings of a DeepSpeed file, checked against those of the run.
fn load_deepspeed(file: &Path, run: &RunFacts<'_>) -> Result<DeepSpeed> {
    if run.config.optim != Optim::AdamW {
        let reason = format!("{} is not the AdamW of a DeepSpeed file; leave out --deepspeed", run.config.optim);
        return Err(Error::Setting { name: "optim", reason });
    }
    DeepSpeed::load(file, run)
}
