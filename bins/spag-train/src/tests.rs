use super::*;

use std::path::PathBuf;

use spag_train::{IntervalStrategy, SchedulerType, Start, TargetModules, TrainConfig, TrainMethod};

const IMITATION: &str = "--output_dir im --model_name_or_path Llama-2-7b-hf --ref_model_name_or_path Llama-2-7b-hf \
    --lm_kl_coeff 0.1 --train_method SFTwithKL --train_data_path ./data/train_imitation_gpt4.json \
    --remove_unused_columns False --num_train_epochs 1 --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \
    --evaluation_strategy no --padding_side right --truncation_side left --max_length 2048 --save_strategy epoch \
    --learning_rate 5e-6 --lr_scheduler_type cosine --warmup_ratio 0.03 --logging_steps 1 --weight_decay 0. \
    --deepspeed ./configs/default_offload_opt_param.json --gradient_checkpointing True --tf32 True --bf16 True";

const MINIMAL: &str = "--model_name_or_path m --train_data_path d --output_dir o";

fn parse(line: &str) -> Result<(TrainArgs, Notes)> {
    let args = std::iter::once("spag-train").chain(line.split_whitespace()).map(OsString::from);
    flags::parse_reference::<TrainArgs>(Task::Training, args)
}

fn config(line: &str) -> TrainConfig {
    let (args, _) = parse(line).unwrap();
    args.config(args.config.max_length)
}

fn rejection(flags: &str) -> String {
    parse(&format!("{MINIMAL} {flags}")).unwrap_err().to_string()
}

#[test]
fn reference_command_is_parsed() {
    let (args, notes) = parse(IMITATION).unwrap();
    assert_eq!(args.train_data_path, [PathBuf::from("./data/train_imitation_gpt4.json")]);
    assert_eq!(args.job.deepspeed, Some("./configs/default_offload_opt_param.json".into()));
    let expected = TrainConfig {
        method: TrainMethod::SftWithKl,
        lm_kl_coeff: 0.1,
        num_train_epochs: 1.0,
        per_device_train_batch_size: 2,
        gradient_accumulation_steps: 8,
        max_length: 2048,
        save_strategy: IntervalStrategy::Epoch,
        learning_rate: 5e-6,
        lr_scheduler_type: SchedulerType::Cosine,
        warmup_ratio: 0.03,
        logging_steps: 1,
        weight_decay: 0.0,
        gradient_checkpointing: true,
        bf16: true,
        ..TrainConfig::default()
    };
    assert_eq!(args.config(2048), expected);
    let said = notes.to_string();
    for flag in ["--remove_unused_columns (", "--tf32 (", "--padding_side right", "--truncation_side left"] {
        assert!(said.contains(flag), "{flag} in {said}");
    }
}

#[test]
fn defaults_are_those_of_the_trainer() {
    assert_eq!(config(MINIMAL), TrainConfig::default());
}

#[test]
fn kebab_case_inline_values_and_bare_switches_are_equal() {
    let kebab: Vec<String> = IMITATION
        .replace("--bf16 True", "--bf16")
        .replace("--lm_kl_coeff 0.1", "--lm_kl_coeff=0.1")
        .split(' ')
        .map(|word| if word.starts_with("--") { word.replace('_', "-") } else { word.to_owned() })
        .collect();
    assert_eq!(config(&kebab.join(" ")), config(IMITATION));
}

#[test]
fn truth_values_have_many_spellings() {
    for (flags, truth) in
        [("--bf16", true), ("--bf16 1", true), ("--bf16=true", true), ("--bf16 False", false), ("--bf16 0", false)]
    {
        assert_eq!(config(&format!("{MINIMAL} {flags}")).bf16, truth, "{flags}");
    }
    assert!(rejection("--bf16 maybe").contains("True or False"));
}

#[test]
fn steps_and_several_files_are_parsed() {
    let (args, _) = parse("--model_name_or_path m --output_dir o --train_data_path a.json b.jsonl --seed 7").unwrap();
    assert_eq!(args.train_data_path.len(), 2);
    for (flags, steps) in [("--max_steps -1", None), ("--max_steps 0", None), ("--max_steps 12", Some(12))] {
        assert_eq!(config(&format!("{MINIMAL} {flags}")).max_steps, steps, "{flags}");
    }
    assert_eq!(config(&format!("{MINIMAL} --warmup_steps 0")).warmup_steps, None);
    assert_eq!(config(&format!("{MINIMAL} --warmup_steps 5")).warmup_steps, Some(5));
}

#[test]
fn target_modules_are_one_word_or_several() {
    let of = |flags: &str| config(&format!("{MINIMAL} --lora_r 4 {flags}")).lora_target_modules;
    let expected = TargetModules::of(["q_proj", "v_proj"]);
    for flags in [
        "--lora_target_modules q_proj v_proj",
        "--lora-target-modules q_proj,v_proj",
        "--lora_target_modules=q_proj,v_proj",
        "--lora_target_modules q_proj, v_proj --bf16 True",
    ] {
        assert_eq!(of(flags), expected, "{flags}");
    }
    let words = ["spag-train", "--lora_target_modules", "q_proj v_proj"].map(OsString::from);
    let words = words.into_iter().chain(MINIMAL.split(' ').map(OsString::from));
    let (args, _) = flags::parse_reference::<TrainArgs>(Task::Training, words).unwrap();
    assert_eq!(args.config.lora_target_modules, expected);
    assert_eq!(of("").names(), None);
}

#[test]
fn evaluation_defaults_to_every_epoch_with_data() {
    let strategy = |flags: &str| config(&format!("{MINIMAL} {flags}")).evaluation_strategy;
    assert_eq!(strategy("--evaluation_strategy steps"), IntervalStrategy::No);
    assert_eq!(strategy("--eval_data_path e.json"), IntervalStrategy::Epoch);
    assert_eq!(strategy("--eval_data_path e.json f.json --eval_strategy steps"), IntervalStrategy::Steps);
    assert_eq!(strategy("--eval_data_path e.json --evaluation_strategy no"), IntervalStrategy::No);
}

#[test]
fn start_follows_from_resume_and_overwrite() {
    let start = |flags: &str| parse(&format!("{MINIMAL} {flags}")).unwrap().0.start();
    assert_eq!(start("").unwrap(), Start::New);
    assert_eq!(start("--overwrite_output_dir").unwrap(), Start::Overwrite);
    for latest in ["latest", "True"] {
        assert_eq!(start(&format!("--resume_from_checkpoint {latest}")).unwrap(), Start::Latest);
    }
    assert_eq!(start("--resume_from_checkpoint o/checkpoint-8").unwrap(), Start::From("o/checkpoint-8".into()));
    assert_eq!(start("--resume_from_checkpoint False").unwrap(), Start::New);
    let both = start("--resume_from_checkpoint latest --overwrite_output_dir True").unwrap_err().to_string();
    assert!(both.contains("--resume_from_checkpoint"), "{both}");
}

#[test]
fn events_folder_follows_from_logging_dir_and_report_to() {
    let events = |flags: &str| {
        let (args, _) = parse(&format!("{MINIMAL} {flags}")).unwrap();
        let (dir, others) = args.events();
        (dir, others.len())
    };
    assert_eq!(events(""), (Some("o/runs".into()), 0));
    assert_eq!(events("--logging_dir e"), (Some("e".into()), 0));
    assert_eq!(events("--report_to none"), (None, 0));
    assert_eq!(events("--report_to wandb tensorboard"), (Some("o/runs".into()), 1));
}

#[test]
fn values_that_would_change_the_result_are_rejected_with_a_reason() {
    for (flags, why) in [
        ("--label_smoothing_factor 0.1", "label smoothing"),
        ("--padding_side left", "padded on the right"),
        ("--truncation_side right", "lose their beginning"),
        ("--fp16 True", "--bf16"),
        ("--optim adafactor", "`muon`"),
        ("--lora True", "--lora_r"),
        ("--evaluation_strategy sometimes", "epoch"),
        ("--save_strategy always", "epoch"),
        ("--load_best_model_at_end True", "--eval_data_path"),
        ("--save_total_limit 0", "at least 1"),
        ("--train_method DPO", "OfflinePO"),
        ("--lr_scheduler_type polynomial", "cosine"),
        ("--add_sep_token True", "nothing between"),
        ("--per_device_train_batch_size 0", "at least 1"),
        ("--learning_rate -1", "--learning_rate"),
        ("--adam_beta1 1", "below 1"),
    ] {
        let message = rejection(flags);
        assert!(message.contains(why), "{flags}: {message}");
    }
}

#[test]
fn unknown_flag_suggests_the_nearest_name() {
    assert!(rejection("--lm_kl_coef 0.1").contains("nearest known one is --lm_kl_coeff"));
    // Those accepted without effect are known too.
    assert!(rejection("--remove_unused_column False").contains("nearest known one is --remove_unused_columns"));
    assert!(rejection("--taboo_max_turn 5").contains("nearest known one is --taboo_max_turns"));
    assert_eq!(rejection("--xyzzy"), "unknown flag --xyzzy");
}

#[test]
fn spag_play_accepts_every_flag() {
    let declared = flags::list_flags(&<TrainArgs as clap::CommandFactory>::command());
    spag_tests::assert_written("crates/spag-cli/src/flags/of_spag_train.txt", &declared, "SPAG_WRITE_FLAGS");
}
