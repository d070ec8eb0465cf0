//! Numbers, depths and sizes that no run can have are refused within seconds and in little memory, with exit code 2 and a
//! message that names the flag or key and what is valid.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use spag_tests::{fixture, program, root, run};

/// Seconds of a refusal, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const HUGE: &str = "18446744073709551615";
const OVERFLOWING: &str = "18446744073709551616";

/// A program that may use 3 GiB of addresses.
fn limited(name: &str, dir: &Path, arguments: &[&str]) -> Command {
    let real = program(name);
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -v 3145728; exec \"$@\"", "limited"]).arg(real.get_program()).args(arguments);
    for (variable, value) in real.get_envs() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    command.current_dir(dir);
    command
}

/// Runs a program that must refuse its arguments soon, with an error that contains all of `words`.
fn refused(name: &str, dir: &Path, arguments: &[&str], words: &[&str]) {
    let start = Instant::now();
    let (out, err) = run(&mut limited(name, dir, arguments), 2);
    let shown: Vec<String> = arguments.iter().map(|text| text.chars().take(80).collect()).collect();
    assert!(start.elapsed() < LIMIT, "{name} {shown:?} took {:?}", start.elapsed());
    for word in words {
        assert!(err.contains(word), "{name} {shown:?} should say {word:?}:\n{err}");
    }
    assert!(out.is_empty() && err.len() < 10_000, "{name} {shown:?}: {} bytes\n{out}", err.len());
}

#[test]
fn numbers_out_of_range_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, command, flags) in [
        (
            "spag-play",
            vec![],
            vec![
                "games_per_word",
                "taboo_max_turns",
                "max_failed_in_a_row",
                "logging_steps",
                "max_new_tokens",
                "min_new_tokens",
                "max_length",
                "top_k",
                "requests_in_flight",
            ],
        ),
        ("spag-assign-rewards", vec![], vec!["threads"]),
        ("spag", vec!["arena"], vec!["games", "taboo_max_turns", "max_failed_in_a_row", "max_new_tokens"]),
        ("spag", vec!["generate"], vec!["max_new_tokens", "max_length", "top_k"]),
        ("spag", vec!["eval"], vec!["limit", "max_length"]),
        ("spag", vec!["bench", "train"], vec!["batch", "seq", "steps", "warmup", "accumulation", "rounds", "threads"]),
        ("spag", vec!["bench", "play"], vec!["games", "turns", "new_tokens", "threads"]),
        ("spag", vec!["bench", "links"], vec!["bytes", "rounds"]),
        ("spag", vec!["bench", "generate"], vec!["prompt", "new_tokens", "batch", "rounds", "threads"]),
        (
            "spag",
            vec!["plan"],
            vec!["gpus", "gpus_per_node", "per_device_train_batch_size", "gradient_accumulation_steps", "max_length"],
        ),
    ] {
        for flag in flags {
            let flag = format!("--{flag}");
            for value in [HUGE, OVERFLOWING, "-1", "1e9", "nan", "", "4294967296000"] {
                let given = format!("{flag}={value}");
                let arguments = [&command[..], &[given.as_str()]].concat();
                refused(name, folder.path(), &arguments, &[&flag, "expected a whole number of at least", "at most"]);
            }
        }
    }
    for (name, command, flags) in [
        ("spag-play", vec![], vec!["temperature", "top_p", "requests_per_minute", "request_timeout"]),
        ("spag-assign-rewards", vec![], vec!["decay_weight"]),
        ("spag", vec!["bench", "play"], vec!["temperature"]),
        ("spag", vec!["plan"], vec!["gpu_memory", "host_memory", "network", "mean_length"]),
    ] {
        for flag in flags {
            let flag = format!("--{flag}");
            for value in ["nan", "inf", "-inf", "-1", "1e39", "1e308", "1e999", "x", ""] {
                let given = format!("{flag}={value}");
                let arguments = [&command[..], &[given.as_str()]].concat();
                refused(name, folder.path(), &arguments, &[&flag, "expected a number"]);
            }
        }
    }
    for seed in ["-1", OVERFLOWING, "1.5"] {
        refused("spag-play", folder.path(), &["--seed", seed], &["--seed"]);
    }
}

#[test]
fn sizes_that_only_together_are_too_large_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("words.txt"), "horse\ncat\n").unwrap();
    let model = fixture("tiny-llama");
    let model = model.to_str().unwrap();
    let play = ["--attacker_model_name_or_path", model, "--defender_model_name_or_path", model];
    let play = [&play[..], &["--data_path", "words.txt", "--output_dir", "out", "--games_per_word", "600000"]].concat();
    refused("spag-play", dir, &play, &["--games_per_word 600000", "2 words", "1 to 1000000 games"]);
    let bench = ["bench", "train", "--model_name_or_path", model];
    for (flags, words) in [
        (vec!["--batch", "65536", "--seq", "1024"], ["--batch 65536 --seq 1024", "67108864 tokens"]),
        (vec!["--steps", "1000000", "--batch", "1000"], ["--batch 1000", "more than 1.00 GiB"]),
        (vec!["--accumulation", "65536"], ["--batch 8", "more than 1.00 GiB"]),
    ] {
        refused("spag", dir, &[&bench[..], &flags].concat(), &words);
    }
    let config = root().join("configs/llama2-7b/config.json");
    let plan = ["plan", config.to_str().unwrap(), "--per_device_train_batch_size", "65536", "--max_length", "1048576"];
    refused("spag", dir, &plan, &["--per_device_train_batch_size 65536", "tokens"]);
    let players: Vec<String> = (0..200).map(|number| format!("p{number}={model}")).collect();
    let mut arena = vec!["arena", "--words", "words.txt", "--players"];
    arena.extend(players.iter().map(String::as_str));
    refused("spag", dir, &arena, &["200 players", "at most 100"]);
    let mut crowded = limited("spag", dir, &["generate", "--model", model, "--input", "i", "--output", "o"]);
    let (_, err) = run(crowded.env("RAYON_NUM_THREADS", "100000"), 2);
    assert!(err.contains("RAYON_NUM_THREADS=100000") && err.contains("at most 4096"), "{err}");
    assert!(!dir.join("out").exists());
}

#[test]
fn settings_out_of_range_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let run_config = root().join("configs/tiny.toml");
    let base_config = root().join("configs/tiny-base.toml");
    for (command, config, keys) in [
        (
            "run",
            &run_config,
            vec![
                "max_turns",
                "epochs",
                "imitation.games",
                "self_play.games",
                "self_play.max_new_tokens",
                "self_play.games_in_flight",
                "self_play.temperature",
                "evaluation.games",
                "evaluation.self_play_games",
                "evaluation.sample_games",
                "evaluation.temperature",
                "sft.share",
                "rewards.decay_weight",
            ],
        ),
        (
            "make-base",
            &base_config,
            vec![
                "max_turns",
                "tokenizer.pieces",
                "tokenizer.documents",
                "tokenizer.word_weight",
                "model.hidden_size",
                "model.intermediate_size",
                "model.num_hidden_layers",
                "model.num_attention_heads",
                "model.max_position_embeddings",
                "model.rope_theta",
                "model.rms_norm_eps",
                "model.initializer_range",
                "documents.count",
                "documents.mix.games",
                "probes.count",
            ],
        ),
    ] {
        for key in keys {
            for value in ["9223372036854775807", "4294967295", "-1", "nan", "inf"] {
                let set = format!("{key}={value}");
                let arguments = [command, config.to_str().unwrap(), "--set", &set];
                refused("spag", dir, &arguments, &[&format!("--set {set}"), key.rsplit('.').next().unwrap()]);
            }
        }
    }
    // The place of a value in a file is the file.
    for (name, text, words) in [
        ("run.toml", "[self_play]\ngames = 0\n", ["run.toml", "self_play.games", "not 0"]),
        ("run.toml", "[sft]\nshare = nan\n", ["run.toml", "sft.share", "not NaN"]),
        ("run.toml", "epochs = 9999999999999999999\n", ["run.toml, line 1", "epochs", "9999999999999999999"]),
    ] {
        fs::write(dir.join(name), text).unwrap();
        refused("spag", dir, &["run", name], &words);
    }
    fs::write(dir.join("above.toml"), "extends = \"run.toml\"\n").unwrap();
    fs::write(dir.join("run.toml"), "[evaluation]\ngames = 2000000\n").unwrap();
    refused("spag", dir, &["run", "above.toml"], &["run.toml: setting `evaluation.games`", "not 2000000"]);
    for (text, words) in [
        ("[hardware]\ngpus = 0\n", ["plan.toml", "hardware.gpus = 0"]),
        ("[hardware]\ngpus = 4611686018427387904\n", ["plan.toml", "hardware.gpus = 4611686018427387904"]),
        ("[hardware]\ngpu_memory = nan\n", ["plan.toml", "hardware.gpu_memory = NaN"]),
        ("[hardware]\nhost_memory = -3.0\n", ["plan.toml", "hardware.host_memory = -3"]),
        ("[training]\nmax_length = 1000000000\n", ["plan.toml", "training.max_length = 1000000000"]),
        ("[hardware]\ngpus = 12\n", ["plan.toml", "not a multiple of --gpus_per_node"]),
        ("[hardware]\ngpus = -12\n", ["plan.toml, line 2", "gpus = -12"]),
    ] {
        let model = root().join("configs/llama2-7b/config.json");
        fs::write(dir.join("plan.toml"), format!("{text}[model]\nconfig = {:?}\n", model)).unwrap();
        refused("spag", dir, &["plan", "plan.toml"], &words);
    }
}

#[test]
fn models_and_documents_beyond_the_memory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let base = root().join("configs/tiny-base.toml");
    let base = base.to_str().unwrap();
    for (sets, words) in [
        (
            vec!["model.hidden_size=65536", "model.intermediate_size=65536", "model.num_hidden_layers=1024"],
            "setting `model`",
        ),
        (vec!["model.hidden_size=100", "model.num_attention_heads=3"], "model.num_attention_heads"),
        (vec!["output_dir=/"], "output_dir"),
        (vec!["output_dir=."], "output_dir"),
        (vec!["output_dir=taken"], "taken has photos, which is no file of a model"),
        (vec!["output_dir=file"], "output_dir is a file"),
    ] {
        fs::create_dir_all(folder.path().join("taken/photos")).unwrap();
        fs::write(folder.path().join("file"), "mine").unwrap();
        let mut arguments = vec!["make-base", base];
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        refused("spag", folder.path(), &arguments, &[words]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is written or deleted");
}

#[test]
fn deep_long_and_endless_configurations_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let deep = vec!["a"; 30_000].join(".");
    let lists = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let tables = format!("{}1{}", "{a=".repeat(30_000), "}".repeat(30_000));
    fs::write(dir.join("ok.toml"), "seed = 1\n").unwrap();
    let set = |value: String, words: &[&str]| {
        for command in ["run", "make-base"] {
            refused("spag", dir, &[command, "ok.toml", "--set", &value], words);
        }
    };
    set(format!("{deep}=1"), &["--set a.a", "more than 16 keys"]);
    set(format!("seed={lists}"), &["--set seed=[["]);
    set(format!("seed={tables}"), &["--set seed={a="]);
    set(format!("{}=1", "k".repeat(100_000)), &["--set kkk", "unknown setting"]);
    for (name, text, words) in [
        ("keys.toml", format!("{deep} = 1\n"), "keys.toml"),
        ("head.toml", format!("[{deep}]\n"), "head.toml"),
        ("lists.toml", format!("seed = {lists}\n"), "lists.toml, line 1"),
        ("tables.toml", format!("seed = {tables}\n"), "tables.toml, line 1"),
        ("long.toml", format!("# {}\n", "x".repeat(2 << 20)), "more than 1048576 bytes"),
        ("null.toml", "\0".repeat(1000), "null.toml"),
    ] {
        fs::write(dir.join(name), text).unwrap();
        for command in ["run", "make-base", "plan"] {
            refused("spag", dir, &[command, name], &[words]);
        }
    }
    fs::write(dir.join("latin.toml"), b"# caf\xe9\nseed = 1\n").unwrap();
    symlink("loop.toml", dir.join("loop.toml")).unwrap();
    symlink("/dev/zero", dir.join("zero.toml")).unwrap();
    fs::create_dir(dir.join("folder.toml")).unwrap();
    for name in ["latin.toml", "loop.toml", "zero.toml", "folder.toml", "missing.toml"] {
        for command in ["run", "make-base", "plan"] {
            refused("spag", dir, &[command, name], &[name]);
        }
        let extending = format!("extends = \"{name}\"\n");
        fs::write(dir.join("extending.toml"), extending).unwrap();
        refused("spag", dir, &["run", "extending.toml"], &[name]);
    }
    for number in 0..5000 {
        fs::write(dir.join(format!("{number}.toml")), format!("extends = \"{}.toml\"\n", number + 1)).unwrap();
    }
    fs::write(dir.join("5000.toml"), "extends = \"0.toml\"\n").unwrap();
    refused("spag", dir, &["run", "0.toml"], &["more than 32 configurations"]);
    refused("spag", dir, &["run", "4990.toml"], &["more than 32 configurations"]);
    fs::write(dir.join("self.toml"), "extends = \"./self.toml\"\n").unwrap();
    refused("spag", dir, &["run", "self.toml"], &["self.toml", "leads back"]);
}

#[test]
fn word_lists_and_lexicons_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let model = fixture("tiny-llama");
    let model = model.to_str().unwrap();
    let players = ["--attacker_model_name_or_path", model, "--defender_model_name_or_path", model];
    let play = [&players[..], &["--data_path", "words.txt", "--output_dir", "out"]].concat();
    let arena_players = [format!("a={model}"), format!("b={model}/ref")];
    let arena = ["arena", "--words", "words.txt", "--players", &arena_players[0], &arena_players[1]];
    for (bytes, words) in [
        (b"horse\n\x1b]0;title\x07\n".to_vec(), ["words.txt", "line 2", "control character"]),
        (b"horse\nca\tt\n".to_vec(), ["words.txt", "line 2", "ca\\tt"]),
        (b"\n\n\n".to_vec(), ["words.txt", "line 1", "no words"]),
        (vec![b'x'; 10 << 20], ["words.txt", "line 1", "more than 200 characters"]),
        (vec![0; 1000], ["words.txt", "line 1", "more than 200 characters"]),
    ] {
        fs::write(dir.join("words.txt"), bytes).unwrap();
        refused("spag-play", dir, &play, &words);
        refused("spag", dir, &arena, &words);
    }
    fs::remove_file(dir.join("words.txt")).unwrap();
    symlink("/dev/zero", dir.join("words.txt")).unwrap();
    refused("spag-play", dir, &play, &["words.txt", "more than 67108864 bytes"]);

    let base = root().join("configs/tiny-base.toml");
    let many: String = (0..6000)
        .map(|number| {
            let letters: String = format!("{number:04}").bytes().map(|digit| char::from(b'a' + digit - b'0')).collect();
            format!("{letters} = [\"x\", \"y\", \"z\"]\n")
        })
        .collect();
    let clues: Vec<String> = (0..5000).map(|number| format!("\"c{number}\"")).collect();
    for (text, words) in [
        (format!("[[category]]\nname = \"things\"\n[category.words]\n{many}"), "6000 words"),
        (format!("[[category]]\nname = \"things\"\n[category.words]\nw = [{}]\n", clues.join(",")), "5000 clues"),
        ("category = []\n".to_owned(), "no words"),
    ] {
        fs::write(dir.join("lexicon.toml"), text).unwrap();
        refused("spag", dir, &["make-base", base.to_str().unwrap(), "--set", "lexicon=lexicon.toml"], &[words]);
    }
}
