//! Ranks under `mpirun`, `torchrun` and SLURM's variables give the same results as one process.
//!
//! Tests that need Open MPI or PyTorch are ignored by default; `-- --ignored` runs them. MPIRUN and TORCHRUN name programs
//! that are not on PATH.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use spag_tests::{
    Ranks, Running, find_program, json_lines, play_command, reserve_port, root, run, send_signal, train_command,
    wait_until,
};

/// The settings of the fixtures; 12 steps of 4 micro-batches, divided between the ranks.
const SETTINGS: &str = "--train_method OfflinePO --lm_kl_coeff 0.2 --lm_sft_coeff 0.5 --per_device_train_batch_size 2 \
    --max_length 96 --learning_rate 1e-3 --lr_scheduler_type cosine --warmup_ratio 0.1 --weight_decay 0.01 \
    --data_order sequential --zero_stage 2";
const MICRO_BATCHES: usize = 4;
/// By default Open MPI refuses to run as root, and to start more processes than cores.
const MPIRUN: [&str; 6] = ["-n", "2", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"];
/// Much more than any test takes.
const LIMIT: Duration = Duration::from_secs(300);

fn train(ranks: usize, output: &Path, more: &str) -> Command {
    let mut command = train_command(output);
    command.arg("--gradient_accumulation_steps").arg((MICRO_BATCHES / ranks).to_string());
    command.args(SETTINGS.split_whitespace()).args(more.split_whitespace());
    command
}

/// The same command under a launcher, without variables of other launchers.
fn under(launcher: &Path, flags: &[&str], started: &Command) -> Command {
    let mut command = Command::new(launcher);
    command.args(flags).arg(started.get_program()).args(started.get_args());
    command.current_dir(started.get_current_dir().unwrap()).env("RAYON_NUM_THREADS", "1");
    started.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command
}

fn losses(output: &Path) -> Vec<f64> {
    json_lines(output.join("metrics.jsonl")).iter().map(|line| line["loss"].as_f64().unwrap()).collect()
}

fn model(output: &Path) -> Vec<u8> {
    fs::read(output.join("model.safetensors")).unwrap()
}

/// The model of two ranks without a launcher, and the losses of one process.
struct Expected {
    model: Vec<u8>,
    losses: Vec<f64>,
}

impl Expected {
    fn new(work: &Path, more: &str) -> Self {
        let (one, two) = (work.join("one"), work.join("two"));
        Ranks::start(1, |_| train(1, &one, more)).succeed();
        Ranks::start(2, |_| train(2, &two, more)).succeed();
        let expected = Self { model: model(&two), losses: losses(&one) };
        expected.assert_trained(&two, "two processes");
        expected
    }

    /// Asserts the same bits as two ranks, and the losses of one process.
    fn assert_trained(&self, output: &Path, what: &str) {
        assert!(model(output) == self.model, "{what}: other weights");
        let losses = losses(output);
        assert_eq!(losses.len(), self.losses.len(), "{what}");
        for (step, (got, want)) in losses.iter().zip(&self.losses).enumerate() {
            assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "{what}, step {}: {got} {want}", step + 1);
        }
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn mpirun_trains_the_model_of_one_process() {
    let mpirun = find_program(&["mpirun"], "MPIRUN");
    let work = tempfile::tempdir().unwrap();
    let expected = Expected::new(work.path(), "--num_train_epochs 1");
    let output = work.path().join("mpi");
    let started = train(2, &output, "--num_train_epochs 1");
    run(under(&mpirun, &MPIRUN, &started).env("MASTER_PORT", reserve_port().to_string()), 0);
    expected.assert_trained(&output, "mpirun");
}

fn play(dir: &Path) -> Command {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("words.txt"), "bear\nbeaver\nfrog\ngoat\nhippo\nhorse\nlion\nmouse").unwrap();
    let model = root().join("data/tiny-llama");
    let mut command = play_command(dir, &model, &model);
    command.args(["--model_prefix", "im", "--taboo_max_turns", "3", "--games_per_word", "3"]);
    command
}

#[test]
#[ignore = "needs Open MPI"]
fn mpirun_plays_the_games_of_one_process() {
    let mpirun = find_program(&["mpirun"], "MPIRUN");
    let work = tempfile::tempdir().unwrap();
    let (one, two) = (work.path().join("one"), work.path().join("two"));
    let games = |dir: &Path| fs::read(dir.join("out/im_sampling_words_results.json")).unwrap();
    run(&mut play(&one), 0);
    run(under(&mpirun, &MPIRUN, &play(&two)).env("MASTER_PORT", reserve_port().to_string()), 0);
    assert!(games(&one) == games(&two), "other games");
}

#[test]
fn slurm_variables_train_the_model_of_one_process() {
    let work = tempfile::tempdir().unwrap();
    let expected = Expected::new(work.path(), "--num_train_epochs 1");
    let (output, port) = (work.path().join("slurm"), reserve_port().to_string());
    let ranks = (0..2).map(|rank: usize| {
        let mut command = train(2, &output, "--num_train_epochs 1");
        let numbers = [("SLURM_PROCID", rank), ("SLURM_LOCALID", rank), ("SLURM_STEP_NUM_TASKS", 2)];
        command.envs(numbers.map(|(name, value)| (name, value.to_string())));
        // A job of more tasks than the step has.
        command.env("SLURM_NTASKS", "4").env("SLURM_NTASKS_PER_NODE", "2").env("SLURM_JOB_ID", "77");
        command.env("SLURM_STEP_NODELIST", "localhost").env("MASTER_PORT", &port).env("RAYON_NUM_THREADS", "1");
        command
    });
    Ranks::start_all(ranks).succeed();
    expected.assert_trained(&output, "SLURM");
}

#[test]
#[ignore = "needs torchrun (PyTorch)"]
fn torchrun_trains_the_model_of_one_process() {
    let torchrun = find_program(&["torchrun"], "TORCHRUN");
    let work = tempfile::tempdir().unwrap();
    let expected = Expected::new(work.path(), "--num_train_epochs 1");
    let port = format!("--master_port={}", reserve_port());
    for (name, rendezvous) in [("default", port.as_str()), ("standalone", "--standalone")] {
        let output = work.path().join(name);
        let started = train(2, &output, "--num_train_epochs 1");
        run(&mut under(&torchrun, &[rendezvous, "--no-python", "--nproc_per_node=2"], &started), 0);
        expected.assert_trained(&output, name);
    }
}

/// The process that has these variables in its environment, each as `NAME=VALUE`.
fn process_with(variables: &[String]) -> Option<u32> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let has = |wanted: &String| environment.split(|byte| *byte == 0).any(|found| found == wanted.as_bytes());
        variables.iter().all(has).then(|| entry.file_name().to_str()?.parse().ok())?
    })
}

#[test]
#[ignore = "needs torchrun (PyTorch)"]
fn restart_by_torchrun_resumes_from_the_last_checkpoint() {
    let torchrun = find_program(&["torchrun"], "TORCHRUN");
    let work = tempfile::tempdir().unwrap();
    let more = "--num_train_epochs 30 --save_strategy steps --save_steps 10 --save_total_limit 2";
    let expected = Expected::new(work.path(), more);
    let output = work.path().join("killed");
    let mark = format!("SPAG_TEST_RUN={}", output.display());
    let started = train(2, &output, more);
    let port = format!("--master_port={}", reserve_port());
    let mut command = under(&torchrun, &[&port, "--max-restarts=1", "--no-python", "--nproc_per_node=2"], &started);
    let log = work.path().join("log");
    let output_file = fs::File::create(&log).unwrap();
    command.env("SPAG_TEST_RUN", &output).stdout(output_file.try_clone().unwrap()).stderr(output_file);
    let mut launcher = Running::start(&mut command);
    wait_until("checkpoint 20 is written", LIMIT, || output.join("checkpoint-20").exists() || launcher.has_exited());
    let victim = process_with(&[mark, "RANK=1".into()]).expect("rank 1 runs");
    send_signal(victim, "KILL");
    let succeeded = launcher.wait_for(LIMIT).is_some_and(|status| status.success());
    let log = fs::read_to_string(&log).unwrap();
    assert!(succeeded, "{log}");
    assert!(log.contains("lost rank 1") && log.contains("of them before this start"), "{log}");
    expected.assert_trained(&output, "after a kill");
}
