//! The flags of the reference's scripts that this project does not have: those of `transformers` 4.37's
//! `TrainingArguments`, and those of its own.
//!
//! A launch script may name any of them. Each is one of three kinds: it cannot change a result here, so it is
//! accepted and said to be idle; one value describes what happens here anyway and any other would change the
//! result, so only that value is accepted; or the flag itself asks for something that is not done here.

/// How many values follow a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// None or one truth value: `--tf32`, `--tf32 True`.
    Switch,
    /// Exactly one.
    One,
    /// All up to the next flag.
    Many,
}

/// Names of flags, separated by blanks, that have as many values.
pub(crate) type OtherFlags = &'static [(Values, &'static str)];

/// The flags of spag-play, which spag-train accepts without effect.
pub(crate) const PLAY_FLAGS: OtherFlags = &[
    (Switch, "play_on"),
    (
        One,
        "attacker_model_name_or_path defender_model_name_or_path task_type temperature top_k top_p max_length
         max_new_tokens min_new_tokens seed per_device_eval_batch_size kv_cache_gib page_size max_step_tokens
         prefix_sharing device dtype requests_in_flight requests_per_minute request_timeout data_path taboo_max_turns
         games_per_word max_failed_in_a_row judge prompts output_dir model_prefix data_suffix logging_steps",
    ),
];

/// The flags of spag-train, which spag-play accepts without effect.
pub(crate) const TRAIN_FLAGS: OtherFlags = &[
    (Switch, "gradient_checkpointing overwrite_output_dir bf16"),
    (Many, "train_data_path eval_data_path report_to"),
    (
        One,
        "model_name_or_path ref_model_name_or_path output_dir max_length data_order seed train_method lm_kl_coeff
         lm_sft_coeff clip_range per_device_train_batch_size gradient_accumulation_steps num_train_epochs max_steps
         learning_rate lr_scheduler_type warmup_ratio warmup_steps weight_decay adam_beta1 adam_beta2 adam_epsilon
         max_grad_norm logging_steps logging_dir evaluation_strategy eval_strategy eval_steps
         per_device_eval_batch_size save_strategy save_steps save_total_limit resume_from_checkpoint device deepspeed
         zero_stage offload_param offload_optimizer",
    ),
];

/// What a flag of the reference means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Whatever its value, nothing changes; the text says why.
    Idle(&'static str),
    /// These values say what is done anyway; the text says why no other will do.
    Only(&'static [&'static str], &'static str),
    /// Not done here; the text says what to do instead.
    Never(&'static str),
}

/// One flag of the reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReferenceFlag {
    /// The name, without dashes.
    pub name: &'static str,
    /// How many values follow it.
    pub values: Values,
    /// What it means to training.
    pub meaning: Meaning,
}

const fn flag(name: &'static str, values: Values, meaning: Meaning) -> ReferenceFlag {
    ReferenceFlag { name, values, meaning }
}

use Meaning::{Idle, Never, Only};
use Values::{Many, One, Switch};

const OFF: &[&str] = &["False"];
const CPU: &str = "everything is computed on the CPU";
/// What of `transformers` names a device: --device does here.
const NO_GPU: Meaning = match cfg!(feature = "cuda") {
    true => Only(OFF, "write --device cpu"),
    false => Idle(CPU),
};
const F32: &str = "arithmetic is f32";
const ONE_PROCESS: &str = "training runs in one process";
const ALL_IN_MEMORY: &str = "samples are read once, before the first step";
const NO_EVAL: &str = "evaluation measures the loss on --eval_data_path and nothing else";
const NO_HUB: &str = "nothing is uploaded anywhere";
const PLAIN_LOGS: &str = "progress goes to stderr, metrics to metrics.jsonl and TensorBoard events";
const EAGER: &str = "there is no graph compiler here";
const UNUSED: &str = "the reference's scripts do not read it either";
const NO_SHARDING: &str = "parameters are not sharded; leave it out";
const NO_FP16: &str = "half precision needs loss scaling, which is not done here; use --bf16 True";
const FULL_TRAINING: &str = "all weights are trained; adapters are not supported";

/// Every such flag. Where a program has a flag of the same name, its own comes first.
pub(crate) const REFERENCE_FLAGS: &[ReferenceFlag] = &[
    // The tokenizer and the rows.
    flag("padding_side", One, Only(&["right"], "the losses are defined on rows padded on the right")),
    flag("truncation_side", One, Only(&["left"], "too long rows lose their beginning, so that the target stays")),
    flag("add_sep_token", Switch, Only(OFF, "query and target are joined with nothing between them")),
    flag("resize_vocab", Switch, Only(OFF, "the vocabulary stays as the checkpoint has it; padding needs no token")),
    flag("tokenizer_path", One, Idle("the tokenizer is the one in the model's folder")),
    flag("remove_unused_columns", Switch, Idle("rows are read by key; other keys do no harm")),
    flag("label_names", Many, Idle("rows are read by key")),
    flag("length_column_name", One, Idle("rows are not grouped by length")),
    flag("group_by_length", Switch, Only(OFF, "it changes the order of samples; see --data_order")),
    flag("length_penalty", One, Idle(UNUSED)),
    // The model.
    flag("model_type", One, Idle("the architecture is read from config.json")),
    flag("pooling_type", One, Idle(UNUSED)),
    flag("trust_remote_code", Switch, Idle("no code is ever loaded from a checkpoint")),
    flag("cache_dir", One, Idle("models are folders; nothing is downloaded")),
    flag("lora", Switch, Never(FULL_TRAINING)),
    flag("use_lora", Switch, Never(FULL_TRAINING)),
    flag("load_in_8bit", Switch, Only(OFF, FULL_TRAINING)),
    flag("load_in_4bit", Switch, Only(OFF, FULL_TRAINING)),
    flag("neftune_noise_alpha", One, Only(&["0", "None"], "no noise is added to embeddings")),
    // Data.
    flag("data_dir", One, Idle(UNUSED)),
    flag("data_type", One, Idle(UNUSED)),
    flag("data_prefix", One, Idle(UNUSED)),
    flag("valid_data_size", One, Idle(UNUSED)),
    flag("batch_size", One, Idle("the reference's scripts do not read it either; see --gradient_accumulation_steps")),
    flag(
        "micro_batch_size",
        One,
        Idle("the reference's scripts do not read it either; see --per_device_train_batch_size"),
    ),
    flag("per_gpu_train_batch_size", One, Never("use --per_device_train_batch_size")),
    flag("per_gpu_eval_batch_size", One, Never("use --per_device_eval_batch_size")),
    flag(
        "auto_find_batch_size",
        Switch,
        Only(OFF, "the batch is the one asked for; set --per_device_train_batch_size"),
    ),
    flag("data_seed", One, Never("one seed orders everything; use --seed")),
    flag("full_determinism", Switch, Idle("a run is deterministic on a CPU as it is")),
    flag("dataloader_drop_last", Switch, Only(OFF, "the last, smaller batch is trained on")),
    flag("dataloader_num_workers", One, Idle(ALL_IN_MEMORY)),
    flag("dataloader_pin_memory", Switch, Idle(ALL_IN_MEMORY)),
    flag("dataloader_persistent_workers", Switch, Idle(ALL_IN_MEMORY)),
    flag("dataloader_prefetch_factor", One, Idle(ALL_IN_MEMORY)),
    flag("dispatch_batches", Switch, Idle(ONE_PROCESS)),
    flag("split_batches", Switch, Idle(ONE_PROCESS)),
    flag("ignore_data_skip", Switch, Only(OFF, "a run goes on with the next sample, as if it had not been stopped")),
    // What is done at all.
    flag("do_train", Switch, Idle("the program trains, whatever is said")),
    flag("do_eval", Switch, Idle("evaluation runs where --eval_data_path is given")),
    flag("do_predict", Switch, Idle(NO_EVAL)),
    // Evaluation.
    flag("eval_delay", One, Idle(NO_EVAL)),
    flag("eval_accumulation_steps", One, Idle(NO_EVAL)),
    flag("prediction_loss_only", Switch, Idle(NO_EVAL)),
    flag("include_inputs_for_metrics", Switch, Idle(NO_EVAL)),
    flag("bf16_full_eval", Switch, Idle(NO_EVAL)),
    flag("fp16_full_eval", Switch, Idle(NO_EVAL)),
    flag("use_legacy_prediction_loop", Switch, Idle(NO_EVAL)),
    flag("load_best_model_at_end", Switch, Only(OFF, NO_EVAL)),
    flag("metric_for_best_model", One, Idle(NO_EVAL)),
    flag("greater_is_better", Switch, Idle(NO_EVAL)),
    // The optimizer.
    flag("optim", One, Only(&["adamw_torch", "adamw_torch_fused"], "the optimizer is AdamW as PyTorch has it")),
    flag(
        "optim_args",
        One,
        Never("the optimizer is AdamW as PyTorch has it; see --adam_beta1, --adam_beta2, --adam_epsilon"),
    ),
    flag("adafactor", Switch, Only(OFF, "the optimizer is AdamW")),
    flag("lr_scheduler_kwargs", One, Only(&["{}"], "the schedules have no further settings")),
    flag("label_smoothing_factor", One, Only(&["0"], "the losses are defined without label smoothing")),
    flag("past_index", One, Only(&["-1"], "no hidden state is carried from batch to batch")),
    // Number formats and devices.
    flag("bf16", Switch, Idle("--dtype says it; by default the checkpoint's on a GPU, f32 on a CPU")),
    flag("tf32", Switch, Idle(F32)),
    flag("fp16", Switch, Only(OFF, NO_FP16)),
    flag("fp16_opt_level", One, Idle(F32)),
    flag("fp16_backend", One, Idle(F32)),
    flag("half_precision_backend", One, Idle(F32)),
    flag("no_cuda", Switch, NO_GPU),
    flag("use_cpu", Switch, NO_GPU),
    flag("use_mps_device", Switch, Only(OFF, CPU)),
    flag("use_ipex", Switch, Idle(EAGER)),
    flag("jit_mode_eval", Switch, Idle(EAGER)),
    flag("torchdynamo", One, Idle(EAGER)),
    flag("torch_compile", Switch, Idle(EAGER)),
    flag("torch_compile_backend", One, Idle(EAGER)),
    flag("torch_compile_mode", One, Idle(EAGER)),
    flag("tpu_num_cores", One, Idle(CPU)),
    flag("tpu_metrics_debug", Switch, Idle(CPU)),
    flag("mp_parameters", One, Idle(ONE_PROCESS)),
    flag("ray_scope", One, Idle("there is no hyper-parameter search here")),
    flag("gradient_checkpointing", Switch, Idle("nothing is differentiated")),
    flag("gradient_checkpointing_kwargs", One, Idle("there is one way to recompute activations")),
    // Processes. The launcher's environment says which rank this is.
    flag("local_rank", One, Idle("ranks are read from the launcher's environment")),
    flag("ddp_backend", One, Idle(ONE_PROCESS)),
    flag("ddp_timeout", One, Idle(ONE_PROCESS)),
    flag("ddp_bucket_cap_mb", One, Idle(ONE_PROCESS)),
    flag("ddp_broadcast_buffers", Switch, Idle(ONE_PROCESS)),
    flag("ddp_find_unused_parameters", Switch, Idle(ONE_PROCESS)),
    flag("fsdp", Many, Only(&[""], NO_SHARDING)),
    flag("fsdp_config", One, Never(NO_SHARDING)),
    flag("fsdp_min_num_params", One, Only(&["0"], NO_SHARDING)),
    flag("fsdp_transformer_layer_cls_to_wrap", One, Never(NO_SHARDING)),
    // Saving.
    flag("save_only_model", Switch, Only(OFF, "a checkpoint holds what the run needs to go on")),
    flag("save_on_each_node", Switch, Idle(ONE_PROCESS)),
    flag("save_safetensors", Switch, Only(&["True"], "weights are always written as model.safetensors")),
    flag("push_to_hub", Switch, Only(OFF, NO_HUB)),
    flag("push_to_hub_model_id", One, Idle(NO_HUB)),
    flag("push_to_hub_organization", One, Idle(NO_HUB)),
    flag("push_to_hub_token", One, Idle(NO_HUB)),
    flag("hub_model_id", One, Idle(NO_HUB)),
    flag("hub_strategy", One, Idle(NO_HUB)),
    flag("hub_token", One, Idle(NO_HUB)),
    flag("hub_private_repo", Switch, Idle(NO_HUB)),
    flag("hub_always_push", Switch, Idle(NO_HUB)),
    // Logging.
    flag("run_name", One, Idle(PLAIN_LOGS)),
    flag("logging_strategy", One, Only(&["steps"], "metrics are written every --logging_steps steps")),
    flag("logging_first_step", Switch, Idle(PLAIN_LOGS)),
    flag("logging_nan_inf_filter", Switch, Idle("losses are logged as they are")),
    flag("log_level", One, Idle(PLAIN_LOGS)),
    flag("log_level_replica", One, Idle(PLAIN_LOGS)),
    flag("log_on_each_node", Switch, Idle(ONE_PROCESS)),
    flag("disable_tqdm", Switch, Idle("a bar is drawn on a terminal only, plain lines elsewhere")),
    flag("skip_memory_metrics", Switch, Idle(PLAIN_LOGS)),
    flag("include_tokens_per_second", Switch, Idle(PLAIN_LOGS)),
    flag("include_num_input_tokens_seen", Switch, Idle(PLAIN_LOGS)),
    flag("debug", Many, Idle(PLAIN_LOGS)),
    flag("debug_mode", Switch, Idle(PLAIN_LOGS)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_stands_once_and_is_snake_case() {
        let mut seen = HashSet::new();
        for flag in REFERENCE_FLAGS {
            assert!(seen.insert(flag.name), "{} stands twice", flag.name);
            assert!(!flag.name.contains('-') && flag.name == flag.name.to_lowercase(), "{}", flag.name);
        }
    }
}
