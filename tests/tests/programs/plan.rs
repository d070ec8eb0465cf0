//! `spag plan` for both models on common machines, and the plans and scripts of `configs/launch`.

use std::path::Path;
use std::{fs, process::Command};

use serde_json::Value;
use spag_tests::{program, root, run};

const MODELS: [&str; 2] = ["configs/llama2-7b/config.json", "configs/baichuan2-13b/config.json"];
const PAPER: [&str; 8] = [
    "--per_device_train_batch_size",
    "2",
    "--max_length",
    "2048",
    "--bf16",
    "True",
    "--gradient-checkpointing",
    "True",
];

fn plan(args: &[&str]) -> Value {
    let (out, _) = run(program("spag").arg("plan").args(args).arg("--json"), 0);
    serde_json::from_str(&out).unwrap()
}

/// The plan of a stage with its offloads.
fn of(plan: &Value, stage: u64, optimizer: bool, parameters: bool) -> &Value {
    let is = |p: &&Value| {
        p["zero_stage"] == stage && p["offload_optimizer"] == optimizer && p["offload_param"] == parameters
    };
    plan["plans"].as_array().unwrap().iter().find(is).unwrap()
}

fn gib(bytes: &Value) -> f64 {
    bytes.as_f64().unwrap() / (1u64 << 30) as f64
}

#[test]
fn plans_of_both_models_on_all_machines_are_consistent() {
    for (model, parameters) in MODELS.into_iter().zip([6_738_415_616u64, 13_896_668_160]) {
        let mut before: Option<Value> = None;
        for gpus in ["8", "16", "32"] {
            let args = [&[model, "--gpus", gpus, "--gpu", "a100-40"], &PAPER[..]].concat();
            let plan = plan(&args);
            assert_eq!(plan["parameters"], parameters);
            // Several hosts can also shard within themselves, in all stages but 0.
            let plans = if gpus == "8" { 9 } else { 16 };
            assert_eq!(plan["plans"].as_array().unwrap().len(), plans);
            for optimizer in [false, true] {
                let needs = [0, 1, 2, 3].map(|stage| gib(&of(&plan, stage, optimizer, false)["gpu_bytes"]));
                assert!(needs.windows(2).all(|pair| pair[1] <= pair[0]), "{model} on {gpus}: {needs:?}");
            }
            for p in plan["plans"].as_array().unwrap() {
                let sum: u64 = p["gpu"].as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum();
                assert_eq!(p["gpu_bytes"], sum);
                let times = &p["seconds"];
                let [compute, links, step] = ["compute", "links", "step"].map(|part| times[part].as_f64().unwrap());
                assert!(step >= compute.max(links) && compute > 0.0 && links > 0.0);
                // The bound of throughput follows from that of the step.
                let tokens = (2 * 2048 * gpus.parse::<u64>().unwrap()) as f64;
                assert!((times["tokens_per_second"].as_f64().unwrap() * step / tokens - 1.0).abs() < 1e-9);
            }
            if let Some(before) = &before {
                for stage in 1..=3 {
                    let need = |plan| gib(&of(plan, stage, false, false)["gpu_bytes"]);
                    assert!(need(&plan) < need(before), "{model} on {gpus}, stage {stage}");
                }
            }
            // The offloaded bytes of one host.
            let away = of(&plan, 3, true, true);
            let parts: u64 = away["host"].as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum();
            assert_eq!(
                (away["host_bytes_per_gpu"].as_u64(), away["host_bytes"].as_u64()),
                (Some(parts), Some(8 * parts))
            );
            assert!(away["fits"] == true, "{model} on {gpus}: {away}");
            before = Some(plan);
        }
        let h200 = plan(&[&[model, "--gpus", "1", "--gpu", "h200"], &PAPER[..]].concat());
        assert_eq!(of(&h200, 0, false, false)["fits"], model.contains("llama"), "{h200}");
        assert!(h200["plans"].as_array().unwrap().iter().filter(|p| p["recommended"] == true).count() <= 1);
    }
}

/// Stage 3, both offloads, two sequences of 2048 tokens, recomputation and bf16 on 8 × A100-40GB.
#[test]
fn paper_setting_fits() {
    let args =
        [&["--model_name_or_path", MODELS[0], "--gpus", "8", "--gpu_memory", "40", "--host_memory", "256"], &PAPER[..]];
    let flags = ["--zero_stage", "3", "--offload_optimizer", "cpu", "--offload_param", "cpu"];
    let by_flags = plan(&[&args.concat(), &flags[..]].concat());
    let only = &by_flags["plans"][0];
    assert_eq!((by_flags["plans"].as_array().unwrap().len(), &only["fits"]), (1, &Value::Bool(true)));
    assert!(gib(&only["gpu_bytes"]) < 12.0, "{only}");
    // 14 bytes per parameter, and little more.
    let host = gib(&only["host_bytes"]) / (14.0 * 6_738_415_616.0 / (1u64 << 30) as f64);
    assert!((1.0..1.1).contains(&host), "{host}");
    for file in ["configs/zero3_offload.json", "configs/default_offload_opt_param.json"] {
        let by_file = plan(&[&args.concat()[..], &["--deepspeed", file]].concat());
        assert_eq!(by_file["plans"], by_flags["plans"]);
    }
    let (text, _) = run(program("spag").arg("plan").args(args.concat()), 0);
    for part in [
        "yes, the fastest",
        "gradients being reduced",
        "a step takes at least",
        "published for A100-SXM4-40GB: 312 TFLOP/s",
        "assumed: 50% of the FLOP/s",
        "playing, each GPU",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn refusal_lists_what_to_change() {
    let (text, _) =
        run(program("spag").args(["plan", MODELS[0], "--gpus", "8", "--gpu_memory", "40", "--zero_stage", "0"]), 0);
    for part in ["does not fit", "GiB are missing on each GPU", "--gradient_checkpointing True (", "--zero_stage 3 ("] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let small = [
        MODELS[0],
        "--gpus",
        "8",
        "--gpu",
        "a100-40",
        "--host_memory",
        "64",
        "--zero_stage",
        "3",
        "--offload_optimizer",
        "cpu",
    ];
    let (text, _) = run(program("spag").arg("plan").args(small).args(PAPER), 0);
    assert!(text.contains("GiB are missing on each host"), "{text}");
}

#[test]
fn plans_of_configs_fit() {
    for (name, gpus) in [("h200", 1), ("a100x8", 8), ("a100x32", 32)] {
        let file = format!("configs/launch/{name}.toml");
        let plan = plan(&[&file]);
        let settings = &plan["settings"];
        assert_eq!((settings["gpus"].as_u64(), plan["plans"].as_array().unwrap().len()), (Some(gpus), 1));
        assert!(plan["plans"][0]["fits"] == true, "{file}: {plan:#}");
        let samples = ["per_device_train_batch_size", "gradient_accumulation_steps", "gpus"]
            .map(|key| settings[key].as_u64().unwrap());
        assert_eq!(samples.iter().product::<u64>(), 128, "{file}: the paper's batch");
        // A flag overrides the file.
        let tight = run(program("spag").args(["plan", &file, "--gpu_memory", "4"]), 0).0;
        assert!(tight.contains("does not fit"), "{tight}");
    }
}

#[test]
fn start_scripts_agree_with_the_plans() {
    let folder = root().join("configs/launch");
    let mut checked = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.extension().is_some_and(|end| end == "sh" || end == "slurm") {
            continue;
        }
        run(Command::new("bash").arg("-n").arg(&path), 0);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("#!/usr/bin/env bash\n"), "{}", path.display());
        assert!(text.lines().all(|line| line.trim_end() == line && line.len() <= 160), "{}", path.display());
        checked += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name == "stage" {
            continue;
        }
        assert!(text.contains("set -euo pipefail"), "{}", path.display());
        let plan = name.trim_end_matches("-ssh");
        let plan: Value = plan_of(plan);
        let steps = format!("--gradient_accumulation_steps {}", plan["settings"]["gradient_accumulation_steps"]);
        assert!(text.contains(&steps), "{}: {steps}", path.display());
    }
    assert_eq!(checked, 5);
}

fn plan_of(name: &str) -> Value {
    plan(&[&format!("configs/launch/{name}.toml")])
}

/// Runs the scripts with programs that only record their arguments.
#[test]
fn start_scripts_pass_the_papers_flags() {
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    for name in ["spag", "spag-train", "ssh", "srun", "scontrol"] {
        let path = folder.path().join(name);
        let script = match name {
            "scontrol" => "#!/bin/sh\necho node0\necho node1\n".to_owned(),
            "srun" => "#!/bin/sh\nshift\nexec \"$@\"\n".to_owned(),
            "ssh" => "#!/bin/sh\nshift 3\nexec sh -c \"$1\"\n".to_owned(),
            _ => format!("#!/bin/sh\necho \"$SPAG_TOKEN\" {name} \"$@\" >> {}\n", said.display()),
        };
        fs::write(&path, script).unwrap();
        run(Command::new("chmod").arg("+x").arg(&path), 0);
    }
    // A login shell sets a PATH of its own.
    let home = folder.path().display().to_string();
    fs::write(folder.path().join(".bash_profile"), format!("export PATH={home}:$PATH\n")).unwrap();
    let path = format!("{home}:{}", std::env::var("PATH").unwrap());
    for (script, calls) in [("h200.sh", 1), ("a100x8.sh", 1), ("a100x32.slurm", 1), ("a100x32-ssh.sh", 4)] {
        for (stage, method, coefficient) in [("im", "SFTwithKL", "0.1"), ("spag", "OfflinePO", "0.2")] {
            let mut command = Command::new("bash");
            command.arg(root().join("configs/launch").join(script)).arg(stage).current_dir(root());
            command
                .env("PATH", &path)
                .env("HOME", &home)
                .env("MODEL", "a model")
                .env("REF", "ref")
                .env("DATA", "d.jsonl");
            command.env("OUT", "out").env("HOSTS", "node0 node1 node2 node3").env_remove("SLURM_SUBMIT_DIR");
            command.env("SLURM_JOB_NODELIST", "node[0-3]").env("SLURM_NNODES", "4").env("SLURM_NODEID", "2");
            run(&mut command, 0);
            let text = fs::read_to_string(&said).unwrap();
            fs::remove_file(&said).unwrap();
            assert_eq!(text.lines().count(), calls, "{script}: {text}");
            for line in text.lines() {
                for part in [
                    &format!("--train_method {method} --lm_kl_coeff {coefficient}"),
                    "--model_name_or_path a model --",
                    "--bf16 True",
                    "spag-train --train_method",
                ] {
                    assert!(line.contains(part), "{script}: {part} in {line}");
                }
                assert_eq!(line.contains("--nnodes 4"), script.starts_with("a100x32"), "{line}");
                let token = line.split(' ').next().unwrap();
                assert_eq!(token.len() == 32, script.starts_with("a100x32"), "{line}");
            }
            if script == "a100x32-ssh.sh" {
                let mut ranks: Vec<&str> =
                    text.lines().map(|line| line.split_once("--node_rank ").unwrap().1).collect();
                ranks.sort_unstable();
                assert!(
                    ranks
                        .iter()
                        .enumerate()
                        .all(|(node, rest)| rest.starts_with(&format!("{node} --master_addr node0 ")))
                );
            }
        }
        let mut unknown = Command::new("bash");
        unknown
            .arg(root().join("configs/launch").join(script))
            .arg("dance")
            .current_dir(root())
            .env("MODEL", "a")
            .env("DATA", "b")
            .env("OUT", "c");
        run(&mut unknown, 2);
    }
}

/// The table of an on-policy run of LLaMA-2-7B on eight GPUs or CPUs: cells by row.
fn on_policy(folder: &Path, more: &[&str]) -> Vec<Vec<String>> {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let samples = file("samples.json", r#"[{"query": "a", "target": "b", "reward": 1.0}]"#);
    let texts = file("texts.json", r#"[{"instruction": "a", "input": "", "output": "b"}]"#);
    let settings = [
        "base_model=configs/llama2-7b".to_owned(),
        "prompts=configs/tiny-prompts.json".to_owned(),
        "words.file=data/words.txt".to_owned(),
        "benchmarks.tasks=tiny".to_owned(),
        "benchmarks.data_dir=data".to_owned(),
        format!("imitation.file={samples}"),
        format!("sft.file={texts}"),
    ];
    let mut command = program("spag");
    command.args(["run", "--plan", "configs/llama2-7b.toml"]);
    for setting in settings.iter().map(String::as_str).chain(more.iter().copied()) {
        command.args(["--set", setting]);
    }
    let (out, _) = run(&mut command, 0);
    assert_eq!(out.contains("training spag-1"), !more.contains(&"method=online"), "{out}");
    let table = out.lines().skip_while(|line| !line.starts_with("GiB of an on-policy rank")).skip(2);
    let cells =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect();
    table.take_while(|line| !line.is_empty()).map(cells).collect()
}

#[test]
fn on_policy_runs_are_planned_with_their_engines() {
    let folder = tempfile::tempdir().unwrap();
    let number = |cell: &String| if cell == "–" { 0.0 } else { cell.parse::<f64>().unwrap() };
    let plan = |more: &[&str]| {
        let mut table = on_policy(folder.path(), &[&["method=online"], more].concat());
        assert_eq!(table.remove(0)[..4], ["stage", "optimizer", "parameters", "learner"]);
        for row in &table {
            // Learner, weights, keys and values, temporary memory, opponent and reference.
            let parts: f64 = row[3..9].iter().map(number).sum();
            assert!((parts - number(&row[9])).abs() < 0.04, "{row:?}");
        }
        table
    };
    let named = |row: &[String]| row[..3].join(" ");
    for (gpu, usable, fitting) in [("a100-40", 38.8, 5), ("a100-80", 78.5, 7)] {
        let table = plan(&[&format!("hardware.gpu={gpu}")]);
        let fits: Vec<_> = table.iter().filter(|row| row[12].starts_with("yes")).collect();
        assert_eq!((table.len(), fits.len()), (9, fitting), "{gpu}: {table:?}");
        for row in &table {
            let games = number(&row[11]);
            assert_eq!(row[4], "12.55");
            assert!(number(&row[9]) <= usable || games == 0.0, "{gpu}: {row:?}");
            assert!(games > 0.0 || row[12].contains("missing"), "{gpu}: {row:?}");
        }
        // A file of DeepSpeed names the placement.
        let configured: Vec<_> =
            table.iter().filter(|row| row[12] == "yes, as configured").map(|row| named(row)).collect();
        assert_eq!(configured, ["3 host host"]);
        // The opponent's engine and the reference are beside the learner, too.
        let opponent = ["online.opponent=pool", "online.kl_coeff=0.1"];
        let two = plan(&[&[&*format!("hardware.gpu={gpu}")], &opponent[..]].concat());
        for (one, two) in table.iter().zip(&two) {
            assert_eq!((&one[3], &two[8]), (&two[3], &"12.55".to_owned()), "{two:?}");
            assert!(number(&two[7]) > 13.0 && number(&two[11]) <= number(&one[11]), "{one:?} {two:?}");
        }
    }
    // If the optimizer's place is open, the run offloads it to make room.
    let stage_1 = folder.path().join("stage-1.json");
    fs::write(&stage_1, r#"{"zero_optimization": {"stage": 1}, "bf16": {"enabled": "auto"}}"#).unwrap();
    let marked = |gpu: &str| {
        let file = format!("train.deepspeed={}", stage_1.display());
        let table = plan(&[&format!("hardware.gpu={gpu}"), &file]);
        table.iter().filter(|row| row[12].contains("as configured")).map(|row| named(row)).collect::<Vec<_>>()
    };
    assert_eq!([marked("a100-40"), marked("a100-80")], [["1 host device"], ["1 device device"]]);
    // Copies of keys and values for trees: two sequences of 2304 tokens, four times 4096 elements of two bytes each.
    let learner = |more: &[&str]| number(&plan(more)[8][3]);
    let trees = learner(&[]) - learner(&["train.packing=none"]);
    assert!((trees - 0.14).abs() < 0.011, "{trees}");
    // A rank plays its share of an update at most.
    let few = plan(&["online.games_per_update=8"]);
    assert_eq!(few[8][5], "2.25", "a game, and one for prefixes: {few:?}");
    let cpus = plan(&["hardware.gpu=cpu", "hardware.host_memory=1024"]);
    let verdicts: Vec<_> = cpus.iter().map(|row| (row[0].as_str(), &row[12][..2])).collect();
    assert_eq!(verdicts, [("0", "no"), ("1", "ye"), ("2", "ye"), ("3", "ye")], "{cpus:?}");
    assert!(on_policy(folder.path(), &[]).is_empty(), "rounds have no engine beside the learner");
}

#[test]
fn bad_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let unknown = file("unknown.toml", "[hardware]\ngpsu = 8\n");
    let broken = file("broken.json", "{");
    let other = file("other.json", r#"{"model_type": "gpt2"}"#);
    for (args, names) in [
        (vec![], "no model is named"),
        (vec!["no-such-file.json"], "no-such-file.json"),
        (vec![&unknown], "gpsu"),
        (vec![&broken], "broken.json"),
        (vec![&other], "other.json"),
        (vec![MODELS[0], "--gpus", "0"], "at least 1"),
        (vec![MODELS[0], "--gpus", "12"], "--gpus_per_node"),
        (vec![MODELS[0], "--gpu", "abacus"], "abacus"),
        (vec![MODELS[0], "--zero_stage", "4"], "unknown ZeRO stage 4"),
        (vec![MODELS[0], "--zero_stage", "2", "--offload_param", "cpu"], "needs ZeRO stage 3"),
        (vec![MODELS[0], "--offload_param", "cpu"], "--zero_stage"),
        (vec![MODELS[0], "--zero_stage", "3", "--deepspeed", "configs/zero3_offload.json"], "omit one of them"),
        (vec![MODELS[0], "--deepspeed", "no-such.json"], "no-such.json"),
        (vec![MODELS[0], "--gpu_memory", "-1"], "--gpu_memory"),
    ] {
        let (out, err) = run(program("spag").arg("plan").args(&args), 2);
        assert!(err.contains(names) && out.is_empty(), "{args:?}: {err}");
    }
}

/// Frozen weights have no gradients and no optimizer state, and a step has two thirds of the products.
#[test]
fn adapters_of_both_models_fit_cards_that_their_weights_do_not() {
    for (model, memory, fits) in [(MODELS[0], "24", true), (MODELS[1], "24", false), (MODELS[1], "40", true)] {
        let machine = [model, "--gpus", "1", "--gpu_memory", memory, "--zero_stage", "0"];
        let of = |more: &[&str]| {
            let batch = ["--per_device_train_batch_size", "1"];
            let plan = plan(&[&machine[..], &PAPER[2..], &batch, more].concat());
            let only = plan["plans"][0].clone();
            (only["gpu_bytes"].as_u64().unwrap(), only["seconds"]["compute"].as_f64().unwrap())
        };
        let (whole, adapter) = (of(&[]), of(&["--lora_r", "16", "--lora_target_modules", "all-linear"]));
        let room = memory.parse::<u64>().unwrap() << 30;
        assert!(whole.0 > 3 * room && (adapter.0 < room) == fits, "{model} on {memory}: {whole:?} {adapter:?}");
        assert!(adapter.1 < 0.85 * whole.1 && adapter.1 > 0.6 * whole.1, "{whole:?} {adapter:?}");
    }
    let (_, err) = run(program("spag").args(["plan", MODELS[0], "--lora_r", "8", "--lora_target_modules", "query"]), 2);
    assert!(err.contains("\"query\""), "{err}");
}

#[test]
fn run_is_planned_before_its_inputs_are_there_and_all_of_them_are_named() {
    let inputs = ["base_model", "prompts", "words.file", "imitation.file", "sft.file", "benchmarks.data_dir"];
    let command = |more: &[&str]| {
        let mut command = program("spag");
        command.args(["run", "configs/llama2-7b.toml"]).args(more);
        for setting in inputs {
            command.args(["--set", &format!("{setting}=nowhere/{setting}")]);
        }
        command
    };
    let (out, _) = run(&mut command(&["--plan"]), 0);
    let (_, err) = run(&mut command(&[]), 2);
    for setting in inputs {
        for text in [&out, &err] {
            assert!(text.contains(&format!("setting `{setting}`: nowhere/{setting}")), "{setting}: {text}");
        }
    }
    for part in [
        "6738.4 million parameters",
        "47500 words",
        "2500 held out",
        "70000",
        "hours in all",
        "games of this length fit",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // Without an assumption on their rows, files are needed.
    let (_, err) = run(command(&["--plan"]).args(["--set", "hardware.words=unset"]), 2);
    assert!(err.contains("setting `words.file`") && err.contains("6 inputs are missing"), "{err}");
}

#[test]
fn time_on_this_machine_follows_from_a_small_measurement() {
    let (out, _) = run(program("spag").args(["run", "--plan", "configs/tiny.toml"]), 0);
    let time = out.lines().find_map(|line| line.strip_prefix("about ")?.split(' ').next()?.parse::<f64>().ok());
    assert!(time.is_some_and(|time| time > 0.0), "{out}");
    for part in ["in all", "min train", "counted in games to imitate", "measured just now with the base model"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // Games to imitate that nothing on this machine has cannot be counted: the time is a bound.
    let player = ["--set", "imitation.source=endpoint", "--set", "imitation.player=openai:http://127.0.0.1:1/v1#m"];
    let (out, _) = run(program("spag").args(["run", "--plan", "configs/tiny.toml"]).args(player), 0);
    assert!(out.contains("GFLOP/s in f32 that this machine reached just now") && out.contains("at least "), "{out}");
}
