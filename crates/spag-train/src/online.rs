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

use crate::checkpoint::{self, Origin, latest_checkpoint};
use crate::config::{JobSettings, TrainConfig};
use crate::error::{Error, Result};
use crate::finished::FinishedModel;
use crate::learner::Learner;
use crate::loss::Loss;
use crate::memory::{Beside, RankMemory};
use crate::opening::{Beginning, Ranks};
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
    planned: u64,
}

impl OnlineLearner {
    /// Opens the last checkpoint of the job's folder, or else its model. The loss is `loss`; a CPU computes log-probabilities
    /// with the bits of generation. A DeepSpeed file says how the learner is sharded, and may have its schedule.
    ///
    /// # Errors
    /// A model or a checkpoint that cannot be read, or too little memory.
    pub fn open(job: OnlineJob, env: &LaunchEnv, group: Arc<dyn ProcessGroup>, loss: Box<dyn Loss>) -> Result<Self> {
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
        let ranks = Ranks { device: &device, env, group, beside: job.beside };
        let plan = beginning.plan(&config, job.steps, &job.sharding, ranks)?;
        let planned = match device.device().is_cpu() {
            true => RankMemory::on_cpu_exact(&plan.architecture, &config, plan.sharding, world_size),
            false => RankMemory::on_gpu(&plan.architecture, &config, plan.sharding, world_size),
        };
        let learner = plan.open_learner(|saved, learner| saved.restore_optimizer(learner))?;
        let learner = learner.with_loss(loss).with_exact_attention();
        let mut made_from = job.made_from.clone();
        if let Some(model) = Provenance::read_of(&job.model)? {
            made_from.extend(Provenance { wordings: Vec::new(), games: model.games });
        }
        let (options, reference) = (plan.options.clone(), Reference::None);
        Ok(Self { learner, tokenizer, job, made_from, options, reference, planned: planned.on_device() })
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

    /// Bytes of the device that the learner is planned to need, without the reference.
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
    pub fn save(&self) -> Result<()> {
        if self.learner.group().rank() > 0 {
            return checkpoint::follow_write(&self.learner);
        }
        let origin = Origin {
            tokenizer: &self.tokenizer,
            config: &self.job.config,
            scheduler: None,
            data_sha256: "",
            samples: 0,
            ranks: self.learner.group().size(),
            reference_sha256: Default::default(),
            made_from: &self.made_from,
        };
        checkpoint::write(&self.job.output_dir, &self.learner, &origin)?;
        checkpoint::prune(&self.job.output_dir, 1)
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
