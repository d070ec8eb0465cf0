//! The commands in `configs/launch/jobset.yaml` and `skypilot.yaml`, run with programs that only record their arguments.

use std::fs;
use std::process::Command;

use spag_tests::{root, run};

/// The script that follows a line which ends with `key: |` or `- |`: the lines that are indented further, without their indentation.
fn script(file: &str) -> String {
    let text = fs::read_to_string(root().join("configs/launch").join(file)).unwrap();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let start = text.lines().position(|line| line.ends_with(" |")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let outer = indent(lines[start]);
    let inner = indent(lines[start + 1]);
    let of_script = lines[start + 1..].iter().take_while(|line| indent(line) > outer);
    of_script.map(|line| format!("{}\n", &line[inner..])).collect()
}

#[test]
fn every_machine_starts_its_ranks_of_the_papers_training() {
    let folder = tempfile::tempdir().unwrap();
    let spag = folder.path().join("spag");
    fs::write(&spag, "#!/bin/sh\necho \"$SPAG_TOKEN: $@\"\n").unwrap();
    run(Command::new("chmod").arg("+x").arg(&spag), 0);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    for (file, first, nodes) in [
        ("jobset.yaml", "spag-train-0-0.spag", vec![("JOB_COMPLETION_INDEX", "2")]),
        (
            "skypilot.yaml",
            "10.0.0.1",
            vec![
                ("SKYPILOT_NODE_RANK", "2"),
                ("SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.2\n10.0.0.3\n10.0.0.4"),
                ("SKYPILOT_NUM_NODES", "4"),
                ("SKYPILOT_NUM_GPUS_PER_NODE", "8"),
            ],
        ),
    ] {
        // The folder of the image is that of the repository.
        let script = script(file).replace("cd /spag\n", "");
        for (stage, method) in [("im", "SFTwithKL"), ("spag", "OfflinePO")] {
            let mut command = Command::new("bash");
            command.args(["-c", &script]).current_dir(root()).env("PATH", &path).envs(nodes.iter().copied());
            command
                .env("STAGE", stage)
                .env("MODEL", "a model")
                .env("DATA", "d.jsonl")
                .env("OUT", "out")
                .env("REF", "ref");
            let (out, _) = run(command.env("SPAG_TOKEN", "secret"), 0);
            let start = format!(
                "secret: launch --nproc_per_node 8 --nnodes 4 --node_rank 2 --master_addr {first} --master_port 29500 "
            );
            assert!(out.starts_with(&start) && out.lines().count() == 1, "{file}: {out}");
            for part in [
                &format!("-- spag-train --train_method {method} "),
                " --model_name_or_path a model --train_data_path d.jsonl --output_dir out ",
                " --resume_from_checkpoint latest --gradient_accumulation_steps 2 --zero_stage 1 --keep_activations auto\n",
            ] {
                assert!(out.contains(part), "{file}: {part} in {out}");
            }
        }
        let mut unknown = Command::new("bash");
        unknown.args(["-c", &script]).current_dir(root()).env("PATH", &path).env("STAGE", "dance");
        run(unknown.env("MODEL", "a").env("DATA", "b").env("OUT", "c"), 2);
    }
}
