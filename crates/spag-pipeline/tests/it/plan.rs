//! Plans of trainings, and their files.

use std::path::{Path, PathBuf};

use spag_pipeline::{Gpu, MachineSettings, PLANNED_LENGTH, PlanFile, PlannedSamples, TrainSettings, TrainingPlan};
use spag_train::TrainConfig;

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/llama2-7b/config.json")
}

fn made(machine: MachineSettings, config: TrainConfig) -> spag_pipeline::Result<TrainingPlan> {
    TrainingPlan::new(model(), machine, TrainSettings::new(config), &PlannedSamples::default())
}

fn plan(machine: MachineSettings, config: TrainConfig) -> serde_json::Value {
    made(machine, config).unwrap().json()
}

fn seconds(plan: &serde_json::Value, part: &str) -> f64 {
    plan["plans"][0]["seconds"][part].as_f64().unwrap()
}

#[test]
fn the_kind_of_gpu_follows_from_its_memory() {
    for (memory, kind) in [(Some(40.0), "a100-40"), (Some(80.0), "a100-80"), (None, "h200")] {
        let machine = MachineSettings { gpu_memory: memory, ..MachineSettings::default() };
        assert_eq!(plan(machine, TrainConfig::default())["settings"]["gpu"], kind, "{memory:?}");
    }
}

#[test]
fn a_step_is_no_faster_with_more_work_or_less_bandwidth() {
    let one = MachineSettings { gpu: Some(Gpu::H100), ..MachineSettings::default() };
    let config = TrainConfig { bf16: true, ..TrainConfig::default() };
    let step = |machine, config: &TrainConfig| seconds(&plan(machine, config.clone()), "step");
    let base = step(one, &config);
    assert!(step(one, &TrainConfig { bf16: false, ..config.clone() }) > base);
    // The passes alone are twice as many.
    let twice = TrainConfig { gradient_accumulation_steps: 2, ..config.clone() };
    let passes = [&config, &twice].map(|config| seconds(&plan(one, config.clone()), "passes"));
    assert!((passes[1] / passes[0] - 2.0).abs() < 1e-9, "{passes:?}");
    assert!(step(one, &twice) - base - passes[0] < 1e-9 * base);
    let hosts = MachineSettings { gpus: Some(16), ..one };
    assert!(step(hosts, &config) > base);
    assert!(step(MachineSettings { network: Some(1.0), ..hosts }, &config) > step(hosts, &config));
}

#[test]
fn files_have_the_flags_of_trainings_and_paths_of_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        PlanFile::load(&path)
    };
    let file = read("[model]\nconfig = \"m\"\n[hardware]\ngpus = 3\n[training]\ndeepspeed = \"d.json\"\nbf16 = true\n")
        .unwrap();
    assert_eq!(file.model.config, Some(folder.path().join("m")));
    let TrainSettings { config, job } = file.training.settings;
    assert_eq!((config.bf16, config.max_length, file.hardware.gpus), (true, PLANNED_LENGTH, Some(3)));
    assert_eq!(job.deepspeed, Some(folder.path().join("d.json")));
    assert_eq!(read("[training]\nmax_length = 99\n").unwrap().training.settings.config.max_length, 99);
    let samples = read("[training]\nmean_length = 50\ntrain_data_path = [\"s.jsonl\"]\n").unwrap().training.samples;
    let files = vec![folder.path().join("s.jsonl")];
    assert_eq!(samples, PlannedSamples { train_data_path: files, mean_length: Some(50.0) });
    for (text, part) in [
        ("[training]\nmax_lengt = 3\n", "did you mean `max_length`?"),
        ("[hardware]\ngpu = \"abacus\"\n", "line 2"),
        ("seed = 1\n", "plan.toml"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let machine = MachineSettings { gpu: Some(Gpu::Cpu), ..MachineSettings::default() };
    let error = made(machine, TrainConfig::default()).unwrap_err();
    assert!(error.to_string().contains("--gpu cpu"), "{error}");
}
