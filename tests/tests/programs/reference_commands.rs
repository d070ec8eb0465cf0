//! The reference's four commands on a tiny model, with its flags unchanged.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spag_game::{JudgeKind, judge_episode, read_episodes};
use spag_rewards::{SampleKind, read_samples};
use spag_tests::{copy_folder, fixture, json, json_lines, program, root, run};

/// Splits a command line at white space and removes double quotes.
fn flags(line: &str) -> Vec<String> {
    line.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect()
}

fn command(name: &str, line: &str, dir: &Path) -> Command {
    let mut command = program(name);
    command.current_dir(dir).args(flags(line));
    command
}

fn metrics(dir: &Path) -> Vec<Value> {
    json_lines(dir.join("metrics.jsonl"))
}

/// Checks the files of a trained model and the number format of its weights.
fn check_model(dir: &Path, dtype: &str) {
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        assert!(dir.join(file).is_file(), "{file}");
    }
    assert_eq!(json(dir.join("config.json"))["torch_dtype"], dtype);
    let bytes = std::fs::read(dir.join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let want = if dtype == "bfloat16" { "BF16" } else { "F32" };
    assert_eq!(header["lm_head.weight"]["dtype"], want);
}

#[test]
fn reference_commands_run_the_loop() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path();
    let path = |name: &str| dir.join(name);
    copy_folder(fixture("tiny-llama"), path("Llama-2-7b-hf"));
    std::fs::create_dir_all(path("configs")).unwrap();
    std::fs::copy(
        root().join("configs/default_offload_opt_param.json"),
        path("configs/default_offload_opt_param.json"),
    )
    .unwrap();
    std::fs::create_dir_all(path("data")).unwrap();
    let imitation = serde_json::json!([
        {"query": "Game one. Attacker:", "target": "Do you like music?", "weight": 1.2},
        {"query": "Game two. Defender:", "target": "I know the word! It is `cat`!", "weight": 0.8},
        {"prompt": "Question", "answer": "Answer"},
    ]);
    std::fs::write(path("data/train_imitation_gpt4.json"), imitation.to_string()).unwrap();

    // Imitation.
    let (_, err) = run(
        &mut command(
            "spag-train",
            r#"--output_dir imitation
            --model_name_or_path "Llama-2-7b-hf"
            --ref_model_name_or_path "Llama-2-7b-hf"
            --lm_kl_coeff 0.1
            --train_method "SFTwithKL"
            --train_data_path "./data/train_imitation_gpt4.json"
            --remove_unused_columns False
            --num_train_epochs 1
            --per_device_train_batch_size 2
            --gradient_accumulation_steps 8
            --evaluation_strategy no
            --padding_side "right"
            --truncation_side "left"
            --max_length 512
            --save_strategy epoch
            --learning_rate 5e-6
            --lr_scheduler_type "cosine"
            --warmup_ratio 0.03
            --logging_steps 1
            --weight_decay 0.
            --deepspeed "./configs/default_offload_opt_param.json"
            --gradient_checkpointing True
            --tf32 True  --bf16 True"#,
            dir,
        ),
        0,
    );
    assert!(err.contains("remove_unused_columns"), "a flag without effect is named:\n{err}");
    let replaced = "the scheduler of ./configs/default_offload_opt_param.json, WarmupDecayLR, replaces --lr_scheduler_type \
                    cosine";
    assert_eq!(err.matches(replaced).count(), 1, "{err}");
    check_model(&path("imitation"), "bfloat16");
    let lines = metrics(&path("imitation"));
    assert_eq!(lines.len(), 1);
    for key in ["step", "loss", "learning_rate", "grad_norm"] {
        assert!(lines[0][key].is_number(), "{key}: {}", lines[0]);
    }

    // Self-play.
    std::fs::write(path("data/all_target_words.txt"), "horse\npiano\nlemon\n").unwrap();
    let self_play = r#"--taboo_max_turns 5
        --attacker_model_name_or_path imitation
        --defender_model_name_or_path imitation
        --model_prefix "im_llama2"
        --data_path "./data/all_target_words.txt"
        --output_dir "./data/self_play_results"
        --per_device_eval_batch_size 1
        --task_type "sampling"
        --data_suffix "all_words"
        --max_length 512
        --max_new_tokens 16
        --logging_steps 5
        --bf16 True  --tf32 True"#;
    run(&mut command("spag-play", self_play, dir), 0);
    let results = path("data/self_play_results/im_llama2_sampling_all_words_results.json");
    let episodes = read_episodes(&results).unwrap();
    let words: Vec<&str> = episodes.iter().map(|e| e.item.as_str()).collect();
    assert_eq!(words, ["horse", "piano", "lemon"]);
    for episode in &episodes {
        assert_eq!(episode.max_turns, 5);
        let verdict = judge_episode(JudgeKind::Paper, episode).unwrap();
        assert_eq!(verdict.history_length, episode.history.len(), "a decided game has stopped");
    }
    // The same command plays no more games.
    let before = std::fs::read(&results).unwrap();
    run(&mut command("spag-play", self_play, dir), 0);
    assert_eq!(std::fs::read(&results).unwrap(), before);

    // Rewards, on games with winners.
    let mut decided = json(&results);
    decided[0]["history"] = serde_json::json!([
        {"role": "attacker", "content": "What do knights ride?"}, {"role": "defender", "content": "A horse."},
    ]);
    decided[1]["history"] = serde_json::json!([
        {"role": "attacker", "content": "It has keys."}, {"role": "defender", "content": "Go on."},
        {"role": "attacker", "content": "And strings."}, {"role": "defender", "content": "I know the word! It is `piano`!"},
    ]);
    std::fs::write(&results, decided.to_string()).unwrap();
    std::fs::write(path("data/alpaca_train.json"), r#"[{"prompt": "Two and two?", "answer": "Four."}]"#).unwrap();
    run(
        &mut command(
            "spag-assign-rewards",
            "--input_data_path data/self_play_results/im_llama2_sampling_all_words_results.json
             --output_data_path data/train_spag_data_im_llama2.json
             --sft_data_path data/alpaca_train.json",
            dir,
        ),
        0,
    );
    let samples = read_samples(path("data/train_spag_data_im_llama2.json")).unwrap();
    let games: Vec<_> = samples.iter().filter(|s| s.kind == SampleKind::Game).collect();
    assert!(games.len() >= 3);
    assert_eq!(games[0].target, "What do knights ride?");
    assert_eq!((games[0].reward, games[1].target.as_str()), (1.0, "Go on."));
    assert!((games[1].reward - 4.0 / 9.0).abs() < 1e-12);
    assert_eq!(samples.last().map(|s| (s.kind, s.weight)), Some((SampleKind::Sft, 1.0)));

    // Policy optimisation.
    run(
        &mut command(
            "spag-train",
            r#"--output_dir spag-1
            --model_name_or_path imitation
            --ref_model_name_or_path imitation
            --lm_kl_coeff 0.2
            --lm_sft_coeff 0.5
            --train_method "OfflinePO"
            --train_data_path "./data/train_spag_data_im_llama2.json"
            --remove_unused_columns False
            --num_train_epochs 1
            --per_device_train_batch_size 2
            --gradient_accumulation_steps 8
            --evaluation_strategy no
            --padding_side "right"
            --truncation_side "left"
            --max_length 512
            --save_strategy epoch
            --learning_rate 2e-6
            --lr_scheduler_type "cosine"
            --warmup_ratio 0.03
            --logging_steps 1
            --weight_decay 0.
            --deepspeed "./configs/default_offload_opt_param.json"
            --gradient_checkpointing True
            --tf32 True"#,
            dir,
        ),
        0,
    );
    check_model(&path("spag-1"), "float32");
    let line = &metrics(&path("spag-1"))[0];
    for key in ["policy", "sft", "kl", "importance_ratio_mean", "clipped_fraction"] {
        assert!(line[key].is_number(), "{key}: {line}");
    }
}
