//! What the flags say about the settings that a DeepSpeed file can repeat.

/// The values that `"auto"` takes and that given values have to agree with.
///
/// The names are the flags' (transformers' `TrainingArguments`), apart from what only a prepared run knows: the number
/// of processes and steps, and the model's hidden size.
#[derive(Clone, Debug, PartialEq)]
pub struct Flags {
    /// `--per_device_train_batch_size`: samples of a micro-batch.
    pub per_device_train_batch_size: usize,
    /// `--gradient_accumulation_steps`: micro-batches of an optimizer step.
    pub gradient_accumulation_steps: usize,
    /// Processes that train together.
    pub world_size: usize,
    /// `--max_grad_norm`; 0 means no clipping.
    pub max_grad_norm: f64,
    /// `--bf16`.
    pub bf16: bool,
    /// `--fp16`.
    pub fp16: bool,
    /// `--learning_rate`: the peak.
    pub learning_rate: f64,
    /// `--adam_beta1`.
    pub adam_beta1: f64,
    /// `--adam_beta2`.
    pub adam_beta2: f64,
    /// `--adam_epsilon`.
    pub adam_epsilon: f64,
    /// `--weight_decay`.
    pub weight_decay: f64,
    /// Optimizer steps of warm-up: `--warmup_steps`, or what `--warmup_ratio` comes to.
    pub warmup_steps: usize,
    /// Optimizer steps of the whole run.
    pub total_steps: usize,
    /// `hidden_size` of the model's `config.json`.
    pub hidden_size: usize,
}

impl Default for Flags {
    /// One process, Hugging Face's defaults, and nothing that depends on a model or its data.
    fn default() -> Self {
        Self {
            per_device_train_batch_size: 8,
            gradient_accumulation_steps: 1,
            world_size: 1,
            max_grad_norm: 1.0,
            bf16: false,
            fp16: false,
            learning_rate: 5e-5,
            adam_beta1: 0.9,
            adam_beta2: 0.999,
            adam_epsilon: 1e-8,
            weight_decay: 0.0,
            warmup_steps: 0,
            total_steps: 0,
            hidden_size: 0,
        }
    }
}

impl Flags {
    /// Samples of an optimizer step over all processes.
    pub(super) fn train_batch_size(&self) -> u64 {
        [self.per_device_train_batch_size, self.gradient_accumulation_steps, self.world_size]
            .into_iter()
            .fold(1, |product, factor| product.saturating_mul(factor as u64))
    }
}
