//! The configurations of the paper's experiment with a small model and few games: the same stages on two ranks, killed once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use spag_game::taboo::Taboo;
use spag_game::{Episode, PlayConfig, PromptSet, Seats, WordList, play_games, read_episodes};
use spag_io::write_jsonl_atomically;
use spag_selfplay::games_on_cycled_words;
use spag_tests::{Running, json, program, root, run, wait_until};
use spag_world::{Lexicon, ScriptedAttacker, ScriptedDefender, general_qa};

/// What a researcher has: games of a strong player, samples of them, and general texts.
struct Data {
    folder: tempfile::TempDir,
}

impl Data {
    fn new() -> Self {
        let data = Self { folder: tempfile::tempdir().unwrap() };
        let (lexicon, words) =
            (Lexicon::embedded().unwrap(), WordList::read(root().join("data/words.txt")).unwrap().words);
        let (mut attacker, mut defender) = (ScriptedAttacker::new(&lexicon), ScriptedDefender::new(&lexicon));
        let seats = Seats::Versus([&mut attacker, &mut defender]);
        let mut games: Vec<Episode> = Vec::new();
        let mut keep = |game: spag_game::FinishedGame| {
            games.push(game.episode);
            Ok(())
        };
        let prompts = PromptSet::load(root().join("configs/tiny-prompts.json")).unwrap();
        let specs = games_on_cycled_words(&words, 120, 5, 3);
        play_games(&Taboo::new(&prompts), specs, seats, &PlayConfig::default(), &mut keep).unwrap();
        write_jsonl_atomically(data.path("games.jsonl"), &games).unwrap();
        let mut convert = program("spag");
        convert.args(["data", "imitation", "--prompts", "configs/tiny-prompts.json"]);
        convert.arg("--input_data_path").arg(data.path("games.jsonl"));
        run(convert.arg("--output_data_path").arg(data.path("samples.json")), 0);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let rows = (0..30).map(|_| {
            let (instruction, output) = general_qa(&lexicon, &mut rng);
            serde_json::json!({"instruction": instruction, "input": "", "output": output})
        });
        fs::write(data.path("alpaca.json"), Value::from_iter(rows).to_string()).unwrap();
        data
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `configs/NAME.toml` with small counts on two ranks.
    fn small(&self, name: &str, imitation: &str, run_dir: &Path) -> Command {
        let mut command = program("spag");
        command.args(["launch", "--nproc_per_node", "2", "--", "spag"]).args(self.arguments(name, imitation, run_dir));
        command
    }

    /// The arguments of `spag`. The samples have the wordings of the small prompts.
    fn arguments(&self, name: &str, imitation: &str, run_dir: &Path) -> Vec<String> {
        let mut settings = vec![
            format!("run_dir={}", run_dir.display()),
            format!("imitation.file={}", self.path(imitation).display()),
            format!("sft.file={}", self.path("alpaca.json").display()),
        ];
        let counts = [
            "base_model=data/tiny-llama",
            "prompts=configs/tiny-prompts.json",
            "words.file=data/words.txt",
            "epochs=2",
            "self_play.games=48",
            "self_play.games_in_flight=12",
            "self_play.max_new_tokens=24",
            "self_play.max_length=300",
            "evaluation.games=12",
            "evaluation.held_out_games=6",
            "evaluation.self_play_games=6",
            "evaluation.arena_games=4",
            "benchmarks.tasks=tiny",
            "benchmarks.data_dir=data",
            "benchmarks.limit=6",
            // A model of this size repeats itself.
            "stop_when.repeated_utterances=1.0",
            "stop_when.ties=1.0",
        ];
        settings.extend(counts.map(str::to_owned));
        for table in ["imitation.train", "train"] {
            settings.extend([
                format!("{table}.learning_rate=6e-4"),
                format!("{table}.max_length=384"),
                format!("{table}.gradient_accumulation_steps=4"),
                format!("{table}.save_steps=3"),
            ]);
        }
        let mut arguments = vec!["run".to_owned(), format!("configs/{name}.toml")];
        settings.into_iter().for_each(|setting| arguments.extend(["--set".to_owned(), setting]));
        arguments
    }
}

/// The files of a run that must not depend on interruptions.
const RESULTS: [&str; 5] = [
    "im/model/model.safetensors",
    "spag-1/episodes.jsonl",
    "spag-2/samples.jsonl",
    "spag-2/model/model.safetensors",
    "eval/spag-2-vs-spag-1.jsonl",
];

/// Kills a run on two ranks while it plays its first round, then runs it to its end and checks stages and report.
fn killed_once(data: &Data, name: &str, imitation: &str) -> PathBuf {
    let dir = data.path(name);
    let mut killed = Running::start_quietly(&mut data.small(name, imitation, &dir));
    let reached = || dir.join("spag-1/episodes.jsonl").exists() || dir.join("report.json").exists();
    wait_until("the first round", Duration::from_secs(300), || reached() || killed.has_exited());
    assert!(reached(), "{name} ended before its first round");
    assert!(killed.kill_after(Duration::from_millis(50)).is_none(), "{name} was killed too late");
    assert!(!dir.join("report.json").exists());
    let (out, err) = run(&mut data.small(name, imitation, &dir), 0);
    let report = fs::read_to_string(dir.join("report.txt")).unwrap();
    assert!(out.contains("report.txt"), "{out}");
    for part in ["SPAG-2", "words that no training game was played on", "Elo ratings", "Benchmarks"] {
        assert!(report.contains(part), "{name}: {part}\n{report}{err}");
    }
    let stages: Vec<String> = json(dir.join("stages.json"))
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(stages, ["base", "im", "spag-1", "spag-2", "eval", "benchmarks"]);
    let report = json(dir.join("report.json"));
    assert!(report["stopped"].is_null());
    assert_eq!(report["held_out"]["words"], 6, "5% of 120 words");
    let played = |file: &str| read_episodes(dir.join(file)).unwrap();
    let held_out = fs::read_to_string(dir.join("held-out-words.txt")).unwrap();
    let is_held_out = |game: &Episode| held_out.lines().any(|word| word == game.item);
    assert!(!played("spag-1/episodes.jsonl").iter().any(is_held_out));
    assert!(played("eval/held-out/spag-2-vs-im.jsonl").iter().all(is_held_out));
    if imitation == "games.jsonl" {
        assert!(!played("im/episodes.jsonl").iter().any(is_held_out));
    }
    dir
}

#[test]
fn llama_resumes_to_the_same_files_on_two_ranks() {
    let data = Data::new();
    let arguments = data.arguments("llama2-7b", "samples.json", &data.path("plan"));
    let (out, _) = run(program("spag").args(arguments).arg("--plan"), 0);
    for part in ["8 × A100-SXM4-40GB", "114 words to train on, 6 held out", "spag-2", "--zero_stage 3", "Disk in"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!data.path("plan").exists(), "a plan starts nothing");
    let broken = killed_once(&data, "llama2-7b", "samples.json");
    let whole = data.path("whole");
    let (_, err) = run(&mut data.small("llama2-7b", "samples.json", &whole), 0);
    assert!(err.contains("have no target_word and may be of games on words that are held out"), "{err}");
    for file in RESULTS {
        assert!(fs::read(whole.join(file)).unwrap() == fs::read(broken.join(file)).unwrap(), "{file} differs");
    }
}

#[test]
fn baichuan_runs_on_two_ranks() {
    killed_once(&Data::new(), "baichuan2-13b", "samples.json");
}

#[test]
fn qwen_runs_on_two_ranks() {
    killed_once(&Data::new(), "qwen3-0.6b", "games.jsonl");
}
