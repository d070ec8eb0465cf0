//! A learner of an on-policy run with its folder: it trains on trajectories that the run makes with its own policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spag_dist::{LaunchEnv, ProcessGroup};
use spag_model::adapter::Adapter;
use spag_model::checkpoint::{LoadOptions, load_model_with};
use spag_model::params::{Adapted, AdapterWeights, FlatBuffers, WeightSource};
use spag_model::tokenizer::BosRule;
use spag_model::{Model, Tokenizer};
use spag_ops::DeviceChoice;
use spag_run::Provenance;

use crate::checkpoint::{self, Origin, SavedRun, Writing, latest_checkpoint};
use crate::config::{JobSettings, TrainConfig};
use crate::error::{Error, Result};
use crate::finished::FinishedModel;
use crate::learner::Learner;
use crate::loss::Loss;
use crate::memory::{Beside, Fitted, RankMemory};
use crate::opening::{Beginning, Ranks, SharedBase};
use crate::packing::Packing;
use crate::reference::add_reference;
use crate::trajectory::Trajectory;

/// What an on-policy run trains, and where.
#[derive(Clone, Debug)]
pub struct OnlineJob {
    /// Folder of the model that is trained, or a checkpoint of an earlier part of the run, whose optimizer goes on.
    pub model: PathBuf,
    /// Folder of the weights under the adapter, if the settings train one; checkpoints have the adapter alone.
    pub base: PathBuf,
    /// Folder of the checkpoints.
    pub output_dir: PathBuf,
    /// The settings of the learner.
    pub config: TrainConfig,
    /// How the learner is sharded.
    pub sharding: JobSettings,
    /// Steps of the whole run, which the learning rate follows.
    pub steps: usize,
    /// The device that trains.
    pub device: DeviceChoice,
    /// Whether prompts begin with BOS.
    pub add_bos_token: BosRule,
    /// What the games of the run are, beside what the model's record has.
    pub made_from: Provenance,
    /// Most tokens of a trajectory.
    pub max_length: usize,
    /// What is beside the learner on its device: engines, and the reference.
    pub beside: Beside,
}

/// The settings that a learner's memory in an on-policy run follows from, and its packing, by those of `[train]`. Trajectories have
/// up to `max_length` tokens; they are packed as trees unless the settings say otherwise.
pub fn on_policy_settings(config: &TrainConfig, max_length: usize) -> TrainConfig {
    TrainConfig { packing: config.packing.or(Some(Packing::Tree)), max_length, ..config.clone() }
}

/// The model that the divergence of a learner is measured from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceModel {
    /// The model of a folder.
    Whole(PathBuf),
    /// The weights under the learner's adapter.
    Base,
    /// Those with the adapter of a folder.
    Adapter(PathBuf),
}

/// A reference model in memory.
enum Reference {
    None,
    /// Learners side by side share its weights.
    Model(Box<Model>),
    Base,
    /// The places of the matrices, and the matrices as the learner has its own.
    Adapter(Box<Adapter>, FlatBuffers),
}

/// A learner with its folder, on one of the ranks.
pub struct OnlineLearner {
    learner: Learner,
    tokenizer: Tokenizer,
    job: OnlineJob,
    made_from: Provenance,
    /// How weights are loaded.
    options: LoadOptions,
    reference: Reference,
    fitted: Fitted,
    planned: u64,
    /// The step of the last checkpoint in the job's folder.
    saved_step: Option<usize>,
}

impl OnlineLearner {
    /// Opens the last checkpoint of the job's folder, or else its model. The loss is `loss`; a CPU computes log-probabilities
    /// with the bits of generation. A DeepSpeed file says how the learner is sharded, and may have its schedule.
    ///
    /// # Errors
    /// A model or a checkpoint that cannot be read, or too little memory.
    pub fn open(job: OnlineJob, env: &LaunchEnv, group: Arc<dyn ProcessGroup>, loss: Box<dyn Loss>) -> Result<Self> {
        Self::open_over(None, job, (env, group), loss)
    }

    /// As [`OnlineLearner::open`], a learner of another adapter over the frozen weights of this one, which both then share. Its job has
    /// the same base and settings as the job of this one, which counts it among what is [beside](OnlineJob::beside).
    ///
    /// # Errors
    /// As [`OnlineLearner::open`], or this learner trains all weights.
    pub fn open_beside(&self, job: OnlineJob, env: &LaunchEnv, loss: Box<dyn Loss>) -> Result<Self> {
        let Some(frozen) = self.learner.shared_base() else {
            let reason = "learners share frozen weights, and without an adapter none are frozen".to_owned();
            return Err(Error::Setting { name: "lora_r", reason });
        };
        let shared = SharedBase { frozen, fitted: self.fitted };
        Self::open_over(Some(shared), job, (env, self.learner.state().group().clone()), loss)
    }

    fn open_over(
        shared: Option<SharedBase<'_>>,
        job: OnlineJob,
        (env, group): (&LaunchEnv, Arc<dyn ProcessGroup>),
        loss: Box<dyn Loss>,
    ) -> Result<Self> {
        let is_adapter = job.config.lora_r.is_some();
        let mut checkpoint = None;
        if group.rank() == 0 {
            checkpoint::remove_leftovers(&job.output_dir)?;
            // A model that an adapter begins with may be a checkpoint itself, of another learner.
            let is_of_part_before = checkpoint::has_state(&job.model) && (!is_adapter || job.model != job.base);
            let of_part_before = is_of_part_before.then(|| job.model.clone());
            checkpoint = latest_checkpoint(&job.output_dir)?.or(of_part_before);
        }
        // Of the run, not of its settings, which its checkpoints have.
        let config = on_policy_settings(&job.config, job.max_length);
        let model = if is_adapter { &job.base } else { &job.model };
        let beginning = Beginning::find(&*group, &config, (model, None), checkpoint)?;
        let tokenizer = beginning.tokenizer(job.add_bos_token)?;
        let (device, world_size) = (job.device.open(env.local_rank)?, group.size());
        let ranks = Ranks { device: &device, env, group, beside: job.beside, shared };
        let plan = beginning.plan(&config, job.steps, &job.sharding, ranks)?;
        let fitted = plan.fitted;
        let shards = fitted.sharding.shards(world_size, env.local_size);
        let planned = match device.device().is_cpu() {
            true => RankMemory::on_cpu_exact(&plan.architecture, &plan.config, fitted.sharding, shards),
            false => RankMemory::on_gpu(&plan.architecture, &plan.config, fitted.sharding, shards),
        };
        // The plan of a first learner has the memory of those beside it.
        let planned = shared.map_or(planned.with_further_adapters(job.beside.further_adapters).on_device(), |_| 0);
        let learner = plan.open_learner(|saved, learner| saved.restore_optimizer(learner))?;
        let is_own = |saved: &SavedRun| saved.dir().parent() == Some(job.output_dir.as_path());
        let saved_step =
            beginning.saved.as_ref().filter(|saved| is_own(saved)).map(|saved| saved.state().position.step);
        let learner = learner.with_loss(loss).with_exact_attention();
        let mut made_from = job.made_from.clone();
        if let Some(model) = Provenance::read_of(&job.model)? {
            made_from.extend(Provenance { wordings: Vec::new(), games: model.games });
        }
        let (options, reference) = (plan.options.clone(), Reference::None);
        Ok(Self { learner, tokenizer, job, made_from, options, reference, fitted, planned, saved_step })
    }

    /// Measures the divergence from this model from now on. The one before is dropped first, so that two are never in memory. All
    /// ranks read it.
    ///
    /// # Errors
    /// A model that cannot be read, or has another architecture than the learner.
    pub fn set_reference(&mut self, model: &ReferenceModel) -> Result<()> {
        self.reference = Reference::None;
        self.reference = match model {
            ReferenceModel::Base => Reference::Base,
            ReferenceModel::Whole(dir) => {
                Reference::Model(Box::new(Self::load_reference(dir, &self.options, &self.learner)?))
            }
            ReferenceModel::Adapter(dir) => {
                let adapter = Adapter::load_for(dir, &self.job.base)?;
                let LoadOptions { device, dtype } = &self.options;
                let matrices = adapter.weights().to_dtype(*dtype)?.to_device(device)?;
                Reference::Adapter(Box::new(adapter), matrices)
            }
        };
        Ok(())
    }

    /// Measures the divergence from the model that `other` measures it from, if that has weights of its own, which are then shared.
    pub fn share_reference(&mut self, other: &Self) {
        if let Reference::Model(model) = &other.reference {
            self.reference = Reference::Model(model.clone());
        }
    }

    fn load_reference(dir: &Path, options: &LoadOptions, learner: &Learner) -> Result<Model> {
        let reference = load_model_with(dir, options)?;
        if reference.network().layout() != learner.network().layout() {
            let reason = format!("{} has another architecture than the learner", dir.display());
            return Err(Error::Setting { name: "reference", reason });
        }
        Ok(reference)
    }

    /// The learner.
    pub fn learner(&mut self) -> &mut Learner {
        &mut self.learner
    }

    /// Bytes of the device that the learner is planned to need, with those that are opened beside it, and without the reference.
    pub fn planned_memory(&self) -> u64 {
        self.planned
    }

    /// Gives every span its log-probabilities under the reference model, if there is one, in the learner's arithmetic. Every rank
    /// has a whole reference model.
    ///
    /// # Errors
    /// A trajectory that the model cannot read, or whose log-probability is not finite.
    pub fn add_reference(&self, trajectories: &mut [Trajectory]) -> Result<()> {
        let adapted;
        let weights: Option<&dyn WeightSource> = match &self.reference {
            Reference::None => None,
            Reference::Model(model) => Some(model.parameters()),
            Reference::Base => self.learner.frozen(),
            Reference::Adapter(adapter, weights) => {
                let adapter = AdapterWeights { places: adapter.places(), weights };
                adapted = self.learner.frozen().map(|base| Adapted { base, adapter });
                adapted.as_ref().map(|adapted| adapted as _)
            }
        };
        weights.map_or(Ok(()), |weights| add_reference(self.learner.network(), weights, trajectories))
    }

    /// The number format and the folder of the first model.
    pub fn job(&self) -> &OnlineJob {
        &self.job
    }

    /// Writes `checkpoint-STEP` and deletes those before it. All ranks have to call it.
    ///
    /// # Errors
    /// A full disk, or a lost rank. Earlier checkpoints are kept then.
    pub fn save(&mut self) -> Result<()> {
        self.save_beside_earlier()?;
        self.remove_earlier_checkpoints()
    }

    /// As [`OnlineLearner::save`], and keeps the checkpoints before it. One of the same step is left as it is, since nothing was learned
    /// after it.
    ///
    /// # Errors
    /// As [`OnlineLearner::save`].
    pub fn save_beside_earlier(&mut self) -> Result<()> {
        let step = self.learner.position().step;
        if self.saved_step == Some(step) {
            return Ok(());
        }
        self.write_checkpoint()?;
        self.saved_step = Some(step);
        Ok(())
    }

    /// Deletes all checkpoints but the last one.
    ///
    /// # Errors
    /// One that cannot be deleted.
    pub fn remove_earlier_checkpoints(&self) -> Result<()> {
        if self.learner.group().rank() > 0 {
            return Ok(());
        }
        checkpoint::prune(&self.job.output_dir, 1)
    }

    fn write_checkpoint(&self) -> Result<()> {
        let group = self.learner.group();
        let origin = Origin {
            tokenizer: &self.tokenizer,
            config: &self.job.config,
            scheduler: None,
            data_sha256: "",
            samples: 0,
            ranks: group.size(),
            reference_sha256: Default::default(),
            made_from: &self.made_from,
        };
        let origin = Some(&origin).filter(|_| group.rank() == 0);
        // The run counts on it when this returns.
        Writing::start(&self.job.output_dir, &self.learner, self.job.config.write_options(), origin)?.finish(group)
    }

    /// Writes the model to a folder, on rank 0: with an adapter the sum. All ranks have to call it.
    ///
    /// # Errors
    /// A full disk, too little memory for the sum, or a lost rank.
    pub fn write_model(&self, dir: &Path) -> Result<()> {
        self.finished().write_model(dir)
    }

    /// Writes the adapter to a folder of PEFT, on rank 0; nothing if all weights are trained. All ranks have to call it.
    ///
    /// # Errors
    /// A full disk, or a lost rank.
    pub fn write_adapter(&self, dir: &Path) -> Result<()> {
        self.finished().write_adapter(dir)
    }

    fn finished(&self) -> FinishedModel<'_> {
        let Self { learner, tokenizer, made_from, .. } = self;
        FinishedModel { learner, tokenizer, made_from, options: self.job.config.write_options() }
    }
}
