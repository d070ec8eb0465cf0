//! The flags of the reference's scripts that a program here does not have: those of `transformers` 4.37's
//! `TrainingArguments` and those of the scripts.

use Meaning::{NoEffect, Only, Unsupported};
use Values::{Many, One, Switch};

/// The number of values that follow a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// None or one truth value: `--tf32`, `--tf32 True`.
    Switch,
    /// Exactly one.
    One,
    /// All up to the next flag.
    Many,
}

impl Values {
    pub(crate) const ALL: [Self; 3] = [Self::Switch, Self::One, Self::Many];

    /// The name in lists of flags.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::One => "one",
            Self::Many => "many",
        }
    }
}

/// What a flag of the reference means to training here. The texts give the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// No value changes the result.
    NoEffect(&'static str),
    /// Only these values are accepted; they state what happens anyway.
    Only(&'static [&'static str], &'static str),
    /// No value is accepted.
    Unsupported(&'static str),
}

/// Flags with the same number of values and the same meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagGroup {
    /// Their names without dashes, separated by white space.
    pub(crate) names: &'static str,
    /// The number of values that follow each.
    pub(crate) values: Values,
    /// What they mean to training.
    pub(crate) meaning: Meaning,
}

const fn flags(names: &'static str, values: Values, meaning: Meaning) -> FlagGroup {
    FlagGroup { names, values, meaning }
}

const OFF: &[&str] = &["False"];
const DEVICES: &str = "--device selects the CPU or CUDA";
/// Flags of `transformers` that select the CPU.
const USE_CPU: Meaning =
    if cfg!(feature = "cuda") { Only(OFF, "write --device cpu") } else { NoEffect("this build computes on the CPU") };
const NUMBER_FORMAT: &str = "the arithmetic is f32, or bf16 on a GPU";
const ALL_IN_MEMORY: &str = "samples are read once, before the first step";
const ROWS_BY_KEY: &str = "rows are read by key; other keys are ignored";
const NO_EVAL: &str = "evaluation measures the loss on --eval_data_path and nothing else";
const NO_HUB: &str = "nothing is uploaded";
const LOGS: &str = "progress is written to stderr, metrics to metrics.jsonl and TensorBoard events";
const NO_COMPILER: &str = "there is no graph compiler";
const UNUSED: &str = "the reference's scripts do not read it either";
const RANK_ZERO_WRITES: &str = "rank 0 writes all files";
const OWN_SAMPLES: &str = "each rank reads all samples and trains on its own micro-batches";
const SHARDING: &str = "use --zero_stage";
const NO_FP16: &str = "half precision needs loss scaling, which is not supported; use --bf16 True";
const ADAPTERS: &str = "an adapter is trained with --lora_r R (docs/TRAINING.md)";
const QUANTISED: &str = "--quantize TYPE quantises the frozen weights under an adapter (--lora_r R)";
const ADAMW: &str = "--optim selects the optimizer, and Adafactor is none of them";

/// The flags of the reference. A flag of the program itself takes precedence.
pub(crate) const REFERENCE_FLAGS: &[FlagGroup] = &[
    // The tokenizer and the rows.
    flags("padding_side", One, Only(&["right"], "the losses are defined on rows padded on the right")),
    flags("truncation_side", One, Only(&["left"], "too long rows lose their beginning, so that the target stays")),
    flags("add_sep_token", Switch, Only(OFF, "query and target are joined with nothing between them")),
    flags("resize_vocab", Switch, Only(OFF, "the vocabulary is that of the checkpoint; padding needs no token")),
    flags("tokenizer_path", One, NoEffect("the tokenizer is the one in the model's folder")),
    flags("remove_unused_columns", Switch, NoEffect(ROWS_BY_KEY)),
    flags("label_names", Many, NoEffect(ROWS_BY_KEY)),
    flags("length_column_name", One, NoEffect("rows are not grouped by length")),
    flags("group_by_length", Switch, Only(OFF, "it changes the order of samples; see --data_order")),
    // The model.
    flags("model_type", One, NoEffect("the architecture is read from config.json")),
    flags("trust_remote_code", Switch, NoEffect("no code is loaded from a checkpoint")),
    flags("cache_dir", One, NoEffect("models are folders; nothing is downloaded")),
    flags("lora use_lora", Switch, Unsupported(ADAPTERS)),
    flags("load_in_8bit load_in_4bit", Switch, Only(OFF, QUANTISED)),
    flags("neftune_noise_alpha", One, Only(&["0", "None"], "no noise is added to embeddings")),
    // Data.
    flags("length_penalty pooling_type data_dir data_type data_prefix valid_data_size", One, NoEffect(UNUSED)),
    flags(
        "batch_size",
        One,
        NoEffect("the reference's scripts do not read it either; see --gradient_accumulation_steps"),
    ),
    flags(
        "micro_batch_size",
        One,
        NoEffect("the reference's scripts do not read it either; see --per_device_train_batch_size"),
    ),
    flags("per_gpu_train_batch_size", One, Unsupported("use --per_device_train_batch_size")),
    flags("per_gpu_eval_batch_size", One, Unsupported("use --per_device_eval_batch_size")),
    flags(
        "auto_find_batch_size",
        Switch,
        Only(OFF, "the batch size is never changed; set --per_device_train_batch_size"),
    ),
    flags("data_seed", One, Unsupported("one seed orders everything; use --seed")),
    flags("full_determinism", Switch, NoEffect("a run on a CPU is always deterministic")),
    flags("dataloader_drop_last", Switch, Only(OFF, "the last, smaller batch is trained on")),
    flags("dataloader_num_workers dataloader_prefetch_factor", One, NoEffect(ALL_IN_MEMORY)),
    flags("dataloader_pin_memory dataloader_persistent_workers", Switch, NoEffect(ALL_IN_MEMORY)),
    flags("dispatch_batches split_batches", Switch, NoEffect(OWN_SAMPLES)),
    flags("ignore_data_skip", Switch, Only(OFF, "a resumed run continues with the next sample")),
    // Tasks of the script.
    flags("do_train", Switch, NoEffect("the program always trains")),
    flags("do_eval", Switch, NoEffect("evaluation runs if --eval_data_path is given")),
    // Evaluation.
    flags("eval_delay eval_accumulation_steps metric_for_best_model", One, NoEffect(NO_EVAL)),
    flags(
        "do_predict prediction_loss_only include_inputs_for_metrics bf16_full_eval fp16_full_eval
         use_legacy_prediction_loop greater_is_better",
        Switch,
        NoEffect(NO_EVAL),
    ),
    flags("load_best_model_at_end", Switch, Only(OFF, NO_EVAL)),
    // The optimizer.
    flags(
        "optim_args",
        One,
        Unsupported("optimizers have no further settings; see --optim, --adam_beta1, --adam_beta2, --adam_epsilon"),
    ),
    flags("adafactor", Switch, Only(OFF, ADAMW)),
    flags("lr_scheduler_kwargs", One, Only(&["{}"], "the schedules have no further settings")),
    flags("label_smoothing_factor", One, Only(&["0"], "the losses are defined without label smoothing")),
    flags("past_index", One, Only(&["-1"], "no hidden state is carried from batch to batch")),
    // Number formats and devices.
    flags("bf16", Switch, NoEffect("--dtype selects it; by default the checkpoint's on a GPU, f32 on a CPU")),
    flags("tf32", Switch, NoEffect(NUMBER_FORMAT)),
    flags("fp16", Switch, Only(OFF, NO_FP16)),
    flags("fp16_opt_level fp16_backend half_precision_backend", One, NoEffect(NUMBER_FORMAT)),
    flags("no_cuda use_cpu", Switch, USE_CPU),
    flags("use_mps_device", Switch, Only(OFF, DEVICES)),
    flags("tpu_num_cores", One, NoEffect(DEVICES)),
    flags("tpu_metrics_debug", Switch, NoEffect(DEVICES)),
    flags("use_ipex jit_mode_eval torch_compile", Switch, NoEffect(NO_COMPILER)),
    flags("torchdynamo torch_compile_backend torch_compile_mode", One, NoEffect(NO_COMPILER)),
    flags("mp_parameters", One, NoEffect("there is no model parallelism of SageMaker; use --zero_stage 3")),
    flags("ray_scope", One, NoEffect("there is no hyper-parameter search")),
    flags("gradient_checkpointing", Switch, NoEffect("playing computes no gradients")),
    flags("gradient_checkpointing_kwargs", One, NoEffect("there is one way to recompute activations")),
    // Ranks.
    flags("local_rank", One, NoEffect("ranks are read from the launcher's environment")),
    flags("ddp_backend", One, NoEffect("the device selects the backend: NCCL for GPUs, TCP for CPUs")),
    flags(
        "ddp_timeout",
        One,
        NoEffect("lost ranks are detected by heartbeats; SPAG_COLLECTIVE_TIMEOUT limits collectives"),
    ),
    flags("ddp_bucket_cap_mb", One, NoEffect("gradients are reduced layer by layer")),
    flags("ddp_broadcast_buffers", Switch, NoEffect("the models have no buffers")),
    flags("ddp_find_unused_parameters", Switch, NoEffect("every parameter is used")),
    flags("fsdp", Many, Only(&[""], SHARDING)),
    flags("fsdp_min_num_params", One, Only(&["0"], SHARDING)),
    flags("fsdp_config fsdp_transformer_layer_cls_to_wrap", One, Unsupported(SHARDING)),
    // Saving.
    flags("save_only_model", Switch, Only(OFF, "a checkpoint contains what is needed to resume")),
    flags("save_on_each_node", Switch, NoEffect(RANK_ZERO_WRITES)),
    flags("save_safetensors", Switch, Only(&["True"], "weights are always written as model.safetensors")),
    flags("push_to_hub", Switch, Only(OFF, NO_HUB)),
    flags(
        "push_to_hub_model_id push_to_hub_organization push_to_hub_token hub_model_id hub_strategy hub_token",
        One,
        NoEffect(NO_HUB),
    ),
    flags("hub_private_repo hub_always_push", Switch, NoEffect(NO_HUB)),
    // Logging.
    flags("logging_strategy", One, Only(&["steps"], "metrics are written every --logging_steps steps")),
    flags("logging_nan_inf_filter", Switch, NoEffect("losses are logged as they are")),
    flags("log_on_each_node", Switch, NoEffect(RANK_ZERO_WRITES)),
    flags("disable_tqdm", Switch, NoEffect("a progress bar is drawn on a terminal only")),
    flags("run_name log_level log_level_replica", One, NoEffect(LOGS)),
    flags(
        "logging_first_step skip_memory_metrics include_tokens_per_second include_num_input_tokens_seen debug_mode",
        Switch,
        NoEffect(LOGS),
    ),
    flags("debug", Many, NoEffect(LOGS)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_snake_case() {
        let mut seen = HashSet::new();
        for name in REFERENCE_FLAGS.iter().flat_map(|group| group.names.split_whitespace()) {
            assert!(seen.insert(name), "{name} occurs twice");
            assert!(!name.contains('-') && name == name.to_lowercase(), "{name}");
        }
    }
}
