//! The settings of a training run: the reference's flags, with Hugging Face's defaults.

mod choices;
mod job_settings;
mod kept_blocks;
pub mod limits;
mod placement;
mod target_modules;

use clap::{ArgAction, Args};
use spag_io::Settings as _;
use spag_model::Architecture;
use spag_model::adapter::LoraConfig;
use spag_model::checkpoint::{ShardSize, WriteOptions};
use spag_model::dtype::WeightDtype;
use spag_model::model::{Activations, BlockFormat};
use spag_model::params::{AdapterPlaces, Layout};

use crate::error::{Error, Result};

pub use crate::loss::TrainMethod;
pub use crate::packing::Packing;
pub use choices::{DataOrder, FirstStepRate, IntervalStrategy, Optim, SchedulerType};
pub use job_settings::JobSettings;
pub use kept_blocks::KeptBlocks;
pub use placement::{Placement, ShardWithin, ShardingPlan, ShardingRequest, ZeroStage};
pub use target_modules::TargetModules;

spag_io::settings! {
    /// All settings of a training run; every key has the reference's flag name.
    #[derive(Args)]
    pub flags TrainConfig {
        /// SFT (cross-entropy), SFTwithKL (imitation) or OfflinePO (self-play).
        #[arg(value_name = "METHOD", help_heading = "Loss")]
        pub method as "train_method": TrainMethod = TrainMethod::Sft;
        /// KL coefficient β (SFTwithKL, OfflinePO).
        #[arg(value_name = "X", help_heading = "Loss")]
        pub lm_kl_coeff: f64 [limits::COEFFICIENT] = 0.0;
        /// Weight α of the SFT loss on demonstrations (OfflinePO).
        #[arg(value_name = "X", help_heading = "Loss")]
        pub lm_sft_coeff: f64 [limits::COEFFICIENT] = 0.0;
        /// Clip range ε of the importance ratio (OfflinePO).
        #[arg(value_name = "X", help_heading = "Loss")]
        pub clip_range: f64 [limits::COEFFICIENT] = 0.2;
        /// Number of samples in a micro-batch.
        #[arg(value_name = "N", help_heading = "Steps")]
        pub per_device_train_batch_size: usize [limits::BATCH] = 8;
        /// Number of micro-batches in an optimizer step, per rank. Their losses are averaged.
        #[arg(value_name = "N", help_heading = "Steps")]
        pub gradient_accumulation_steps: usize [limits::ACCUMULATION] = 1;
        /// Most tokens that a rank computes in one pass, at least --max_length. The samples of a step are dealt to ranks and passes by their
        /// tokens; its loss is that of its micro-batches up to rounding. 0: each micro-batch is a pass, as in the reference [default:
        /// --per_device_train_batch_size times --max_length].
        #[arg(value_name = "N", help_heading = "Steps")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_tokens_per_pass: Option<usize> [limits::PASS];
        /// How samples of a pass are packed: none (one after another) or tree: tokens that samples have in common at their
        /// beginning are computed once. The loss is the same; gradients differ by rounding [default: none; tree in on-policy
        /// runs].
        #[arg(value_name = "PACKING", help_heading = "Steps")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub packing: Option<Packing>;
        /// Number of epochs.
        #[arg(value_name = "X", help_heading = "Steps")]
        pub num_train_epochs: f64 [limits::EPOCHS] = 3.0;
        /// Total number of optimizer steps; overrides --num_train_epochs unless -1.
        // The full path keeps clap from treating the type as an optional flag, here and below.
        #[arg(value_name = "N", default_value = "-1", value_parser = limits::max_steps, help_heading = "Steps")]
        pub max_steps: ::std::option::Option<usize> [limits::STEPS];
        /// Peak learning rate.
        #[arg(value_name = "X", default_value = "5e-5", help_heading = "Optimizer")]
        pub learning_rate: f64 [limits::LEARNING_RATE] = 5e-5;
        /// Learning rate schedule: linear, cosine, constant (without warm-up) or constant_with_warmup. A scheduler in the file
        /// of --deepspeed replaces it.
        #[arg(value_name = "TYPE", help_heading = "Optimizer")]
        pub lr_scheduler_type: SchedulerType = SchedulerType::Linear;
        /// Learning rate of the first step under a scheduler of --deepspeed: min (warmup_min_lr, as in DeepSpeed since 0.15.3)
        /// or max (--learning_rate, as in earlier versions).
        #[arg(value_name = "RATE", help_heading = "Optimizer")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub deepspeed_first_step: FirstStepRate = FirstStepRate::Min;
        /// Share of all steps used for the linear warm-up.
        #[arg(value_name = "X", help_heading = "Optimizer")]
        pub warmup_ratio: f64 [limits::WARMUP_RATIO] = 0.0;
        /// Number of warm-up steps; overrides --warmup_ratio unless 0.
        #[arg(value_name = "N", default_value = "0", value_parser = limits::warmup_steps, help_heading = "Optimizer")]
        pub warmup_steps: ::std::option::Option<usize> [limits::WARMUP_STEPS];
        /// Optimizer: adamw_torch, sgd (without momentum), or muon: the orthogonalised momentum for matrices of blocks, AdamW for
        /// all other parameters.
        #[arg(value_name = "NAME", help_heading = "Optimizer")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub optim: Optim = Optim::AdamW;
        /// Weight decay; decoupled from the gradient, except for sgd.
        #[arg(value_name = "X", help_heading = "Optimizer")]
        pub weight_decay: f64 [limits::WEIGHT_DECAY] = 0.0;
        /// Decay rate β1 of the first moment.
        #[arg(value_name = "X", help_heading = "Optimizer")]
        pub adam_beta1: f64 [limits::DECAY] = 0.9;
        /// Decay rate β2 of the second moment.
        #[arg(value_name = "X", help_heading = "Optimizer")]
        pub adam_beta2: f64 [limits::DECAY] = 0.999;
        /// ε, added to the root of the second moment.
        #[arg(value_name = "X", default_value = "1e-8", help_heading = "Optimizer")]
        pub adam_epsilon: f64 [limits::EPSILON] = 1e-8;
        /// Maximum global norm of the gradients (gradient clipping).
        #[arg(value_name = "X", help_heading = "Optimizer")]
        pub max_grad_norm: f64 [limits::GRAD_NORM] = 1.0;
        /// Number format in which the optimizer gets the sums of gradients: f32, or bf16, to which they are rounded after their norm has
        /// been computed. With --offload_optimizer cpu, half as many bytes are then copied to the host. It applies without offload, too.
        #[arg(value_name = "TYPE", default_value = "f32", help_heading = "Optimizer")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub optim_grad_dtype: WeightDtype = WeightDtype::F32;
        /// Number format in which gradients are summed over ranks: f32, or bf16, which halves the bytes of these sums. A layer's
        /// gradients are then rounded before they are sent, and each sum over ranks is. Sums over passes are f32.
        #[arg(value_name = "TYPE", default_value = "f32", help_heading = "Optimizer")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub reduce_dtype: WeightDtype = WeightDtype::F32;
        /// Maximum number of tokens in a sample. Longer samples lose their beginning.
        #[arg(value_name = "N", help_heading = "Model and data")]
        pub max_length: usize [limits::LENGTH] = 256;
        /// Order of the samples: sequential, or shuffled (in every epoch).
        #[arg(value_name = "ORDER", help_heading = "Model and data")]
        pub data_order: DataOrder = DataOrder::Shuffled;
        /// Keep the samples of a game together in the order of samples, so that those that begin alike are in one micro-batch.
        #[arg(value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = spag_io::truth, help_heading = "Model and data")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub group_by_game: bool;
        /// Seed of the order of samples.
        #[arg(value_name = "N", help_heading = "Model and data")]
        pub seed: u64 = 42;
        /// Number of optimizer steps between lines of metrics.jsonl.
        #[arg(value_name = "N", help_heading = "Output")]
        pub logging_steps: usize [limits::STEPS] = 1;
        /// When to write a checkpoint to checkpoint-STEP: no, steps or epoch.
        #[arg(value_name = "WHEN", help_heading = "Output")]
        pub save_strategy: IntervalStrategy = IntervalStrategy::Steps;
        /// Number of steps between checkpoints, with --save_strategy steps.
        #[arg(value_name = "N", help_heading = "Output")]
        pub save_steps: usize [limits::STEPS] = 500;
        /// Keep only the N latest checkpoints [default: all].
        #[arg(value_name = "N", help_heading = "Output")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub save_total_limit: Option<usize> [limits::STEPS];
        /// Largest file of a saved model, such as 5GB, 200MB or a number of bytes. A larger model is written as several files with
        /// an index.
        #[arg(value_name = "SIZE", help_heading = "Output")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub max_shard_size: ShardSize = ShardSize::default();
        /// When to evaluate: no, steps or epoch [default: epoch if --eval_data_path is given].
        // Without such data it is `No`, the default of files: there is nothing to evaluate.
        #[arg(
        long,
        value_name = "WHEN",
        alias = "eval_strategy",
        default_value = "epoch",
        hide_default_value = true,
        help_heading = "Output"
        )]
        pub evaluation_strategy: IntervalStrategy = IntervalStrategy::No;
        /// Number of steps between evaluations, with --evaluation_strategy steps [default: --logging_steps].
        #[arg(value_name = "N", help_heading = "Output")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub eval_steps: Option<usize> [limits::STEPS];
        /// Number of samples in a micro-batch of evaluation.
        #[arg(value_name = "N", help_heading = "Output")]
        pub per_device_eval_batch_size: usize [limits::BATCH] = 8;
        /// Parameters in bf16, in memory and in files, with f32 master weights. Products are computed in bf16 with f32 sums.
        #[arg(value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = spag_io::truth, help_heading = "Output")]
        pub bf16: bool;
        /// Train a LoRA adapter of this rank instead of the weights, which stay as they are. The output folder is one of PEFT
        /// [default: train the weights].
        #[arg(value_name = "N", help_heading = "Adapter")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lora_r: Option<usize> [limits::LORA_R];
        /// The scale of the adapter is X / --lora_r.
        #[arg(value_name = "X", help_heading = "Adapter")]
        #[serde(skip_serializing_if = "is_default_alpha")]
        pub lora_alpha: f64 [limits::LORA_ALPHA] = LORA_ALPHA;
        /// Dropout of the adapter's input: 0, since this program has no dropout.
        #[arg(value_name = "X", help_heading = "Adapter")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub lora_dropout: f64 [limits::LORA_DROPOUT] = 0.0;
        /// Quantise the weights under an adapter as they are read, as ggml does (QLoRA): q8_0 (8.5 bits a weight), q6_k, q5_0, q4_1, q4_0
        /// or q4_k (4.5 bits). A layer is dequantised when a pass needs it. Embeddings, norms and biases are not quantised. On a
        /// CPU only; requires --lora_r [default: they have the number format of training].
        #[arg(value_name = "TYPE", help_heading = "Adapter")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub quantize: Option<BlockFormat>;
        /// Activation checkpointing: recompute activations in the backward pass. Less memory, more time, same result.
        #[arg(value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_value = "False", default_missing_value = "True", value_parser = spag_io::truth, help_heading = "Steps")]
        pub gradient_checkpointing: bool;
        /// With --gradient_checkpointing, the number of the model's blocks whose activations are kept, or auto: as many as the memory
        /// plan has room for, on a CPU in half of the free memory. The same result, in less time than with 0.
        #[arg(value_name = "K", help_heading = "Steps")]
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub keep_activations: KeptBlocks = KeptBlocks::Count(0);
    } + {
        /// The linear layers with an adapter.
        pub lora_target_modules: TargetModules;
    }
}

/// PEFT's default.
const LORA_ALPHA: f64 = 8.0;

fn is_default_alpha(alpha: &f64) -> bool {
    *alpha == LORA_ALPHA
}

impl TrainConfig {
    /// Rejects numbers out of their ranges ([`limits`]).
    ///
    /// # Errors
    /// [`Error::Setting`] naming the flag and the range.
    pub fn check(&self) -> Result<()> {
        if self.lora_r.is_none() && (self.lora_target_modules.is_given() || !is_default_alpha(&self.lora_alpha)) {
            let reason = "it is of an adapter, whose rank is not set; set lora_r, or leave this out".to_owned();
            return Err(Error::Setting { name: "lora_alpha, lora_target_modules", reason });
        }
        if self.lora_r.is_none() && self.quantize.is_some() {
            let reason =
                "quantised weights are trained by an adapter over them only; set lora_r, or leave this out".to_owned();
            return Err(Error::Setting { name: "quantize", reason });
        }
        if !self.gradient_checkpointing && !spag_io::is_default(&self.keep_activations) {
            let reason = "all activations are kept already; set gradient_checkpointing, or leave this out".to_owned();
            return Err(Error::Setting { name: "keep_activations", reason });
        }
        if self.max_tokens_per_pass.is_some_and(|most| most > 0 && most < self.max_length) {
            let reason =
                format!("a sample has up to {} tokens (max_length), which no pass would hold", self.max_length);
            return Err(Error::Setting { name: "max_tokens_per_pass", reason });
        }
        self.check_numbers().map_err(|(name, reason)| Error::Setting { name, reason })
    }

    /// Number format of the parameters, in memory and in files.
    pub fn dtype(&self) -> WeightDtype {
        if self.bf16 { WeightDtype::Bf16 } else { WeightDtype::F32 }
    }

    /// How the model is written.
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions::new(self.dtype()).sharded(self.max_shard_size)
    }

    /// The settings of the adapter that is trained on a model, if one is; `base` is the model's name in its file.
    ///
    /// # Errors
    /// No name of a module.
    pub fn lora(&self, model: &Architecture, base: Option<String>) -> Result<Option<LoraConfig>> {
        let Some(rank) = self.lora_r else { return Ok(None) };
        let modules = match self.lora_target_modules.names() {
            None => LoraConfig::default_modules(model),
            Some([]) => {
                let reason = "it names no module; leave it out for the default".to_owned();
                return Err(Error::Setting { name: "lora_target_modules", reason });
            }
            Some(names) => names.to_vec(),
        };
        Ok(Some(LoraConfig::new(rank, self.lora_alpha, modules, base)?))
    }

    /// The layout of what is trained: the adapter's, or the model's. Settings of an adapter that does not fit the model, which are
    /// refused where a run begins, count as none.
    pub fn trained_layout(&self, model: &Architecture) -> Layout {
        let lora = self.lora(model, None).ok().flatten();
        let places = lora.and_then(|lora| AdapterPlaces::new(&lora, model).ok());
        places.map_or_else(|| Layout::new(model), |places| places.layout().clone())
    }

    /// Tokens that a pass may have, for plans of memory.
    pub fn tokens_of_pass(&self) -> usize {
        let micro_batch = self.per_device_train_batch_size.saturating_mul(self.max_length);
        self.max_tokens_per_pass.filter(|most| *most > 0).unwrap_or(micro_batch)
    }

    /// The activations that are kept; of `auto`, before memory has been planned, none.
    pub fn activations(&self) -> Activations {
        match (self.gradient_checkpointing, self.keep_activations) {
            (false, _) => Activations::Keep,
            (true, KeptBlocks::Auto) => Activations::KeepLast(0),
            (true, KeptBlocks::Count(count)) => Activations::KeepLast(count),
        }
    }

    /// The same settings with other activations kept.
    pub fn with_activations(self, activations: Activations) -> Self {
        let (gradient_checkpointing, count) = match activations {
            Activations::Keep => (false, 0),
            Activations::KeepLast(count) => (true, count),
        };
        Self { gradient_checkpointing, keep_activations: KeptBlocks::Count(count), ..self }
    }

    /// Rejects settings that do not fit a model's size.
    ///
    /// # Errors
    /// [`Error::Setting`]: more blocks with kept activations than it has.
    pub fn check_for(&self, model: &Architecture) -> Result<()> {
        let blocks = model.num_hidden_layers;
        match self.keep_activations {
            KeptBlocks::Count(count) if count > blocks => {
                let reason = format!("the model has {blocks} blocks, fewer than {count}");
                Err(Error::Setting { name: "keep_activations", reason })
            }
            _ => Ok(()),
        }
    }
}
