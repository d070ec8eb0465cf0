//! Configurations: layers, overrides, and errors.

use std::fs;
use std::path::{Path, PathBuf};

use spag_game::PromptSet;
use spag_pipeline::{BaseConfig, Error, RunConfig, SftShare, Whole};
use spag_rewards::RewardNorm;
use spag_train::{Placement, TrainMethod, ZeroStage};
use tempfile::TempDir;

/// A folder with `configs/` and `data/tiny-llama/`, as in the repository.
struct Repository(TempDir);

impl Repository {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("configs")).unwrap();
        fs::create_dir_all(folder.path().join("data/tiny-llama")).unwrap();
        Self(folder)
    }

    fn config(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join("configs").join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn load(&self, text: &str, overrides: &[&str]) -> Result<RunConfig, Error> {
        load(&self.config("a.toml", text), overrides)
    }
}

fn load(path: &Path, overrides: &[&str]) -> Result<RunConfig, Error> {
    RunConfig::load(path, &overrides.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

fn message(text: &str, overrides: &[&str]) -> String {
    Repository::new().load(text, overrides).unwrap_err().to_string()
}

#[test]
fn settings_that_a_file_does_not_name_have_their_defaults() {
    let config = Repository::new().load("seed = 0", &[]).unwrap();
    assert_eq!((config.epochs, config.max_turns), (3, 5));
    assert_eq!(config.imitation.train.method, TrainMethod::SftWithKl);
    assert_eq!((config.train.method, config.train.lm_kl_coeff), (TrainMethod::OfflinePo, 0.2));
    assert_eq!(config.evaluation.epochs, Some(vec![1, 2, 3]));
}

#[test]
fn sparse_table_keeps_the_defaults_of_its_stage() {
    let config = Repository::new().load("[imitation.train]\nlearning_rate = 1e-3\n", &[]).unwrap();
    assert_eq!(config.imitation.train.method, TrainMethod::SftWithKl);
    assert_eq!((config.imitation.train.learning_rate, config.imitation.train.lm_kl_coeff), (1e-3, 0.1));
}

#[test]
fn shipped_configurations_are_valid_and_differ_only_in_rewards() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    // The base model and the prompts need not exist for this test.
    let here = format!("base_model={}", configs.display());
    let prompts = format!("prompts={}", configs.display());
    let overrides = [here.as_str(), prompts.as_str()];
    let tiny = load(&configs.join("tiny.toml"), &overrides).unwrap();
    let paper = load(&configs.join("tiny-paper.toml"), &overrides).unwrap();
    assert_eq!((tiny.rewards.reward_norm, paper.rewards.reward_norm), (RewardNorm::Mean, RewardNorm::Sum));
    let same = RunConfig { rewards: tiny.rewards.clone(), run_dir: tiny.run_dir.clone(), ..paper };
    assert_eq!(same, tiny);
    BaseConfig::load(configs.join("tiny-base.toml"), &[prompts]).unwrap();
}

#[test]
fn configurations_of_a_real_model_are_one_but_for_its_benchmarks() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    // What is downloaded need not exist for this test.
    let keys = ["base_model", "lexicon", "sft.file", "benchmarks.data_dir"];
    let overrides = keys.map(|key| format!("{key}={}", configs.display()));
    let overrides = overrides.each_ref().map(String::as_str);
    let plain = load(&configs.join("smollm2-135m.toml"), &overrides[..3]).unwrap();
    let scored = load(&configs.join("smollm2-135m-benchmarks.toml"), &overrides).unwrap();
    assert_eq!(scored.benchmarks.as_ref().map(|benchmarks| benchmarks.whole.len()), Some(2));
    assert_eq!(RunConfig { benchmarks: None, ..scored }, plain);
    assert!(!plain.prompt_format.is_plain());
    let prompts = PromptSet::load(plain.prompts.unwrap()).unwrap();
    assert_ne!(prompts.wordings().sha256, PromptSet::default().wordings().sha256);
}

#[test]
fn unknown_key_error_has_line_and_nearest_key() {
    let text = message("seed = 1\n\n[imitation]\ngmaes = 5\n", &[]);
    assert!(text.contains("a.toml, line 4"), "{text}");
    assert!(text.contains("unknown setting `gmaes`; did you mean `games`?"), "{text}");

    let text = message("[train]\nlerning_rate = 1e-3\n", &[]);
    assert!(text.contains("`lerning_rate`; did you mean `learning_rate`?"), "{text}");

    // Without a similar key, all known keys are listed.
    let text = message("[sft]\nxyzzyx = 1\n", &[]);
    assert!(text.contains("unknown setting `xyzzyx`; known here: file, share"), "{text}");
}

#[test]
fn wrong_type_or_broken_toml_error_has_the_line() {
    let text = message("seed = 1\nepochs = \"three\"\n", &[]);
    assert!(text.contains("line 2") && text.contains("epochs = \"three\""), "{text}");
    let text = message("seed = 1\n[train\n", &[]);
    assert!(text.contains("line 2"), "{text}");
    let text = message("judge = \"strict\"\n", &[]);
    assert!(text.contains("line 1") && text.contains("whole-word"), "{text}");
}

#[test]
fn overrides_are_toml_or_strings() {
    let overrides = [
        "seed=7",
        "run_dir=runs/b",
        "self_play.temperature=0.5",
        "evaluation.epochs=[3, 1]",
        "rewards.reward_norm=mean",
    ];
    let config = Repository::new().load("seed = 1\n", &overrides).unwrap();
    assert_eq!((config.seed, config.run_dir.to_str()), (7, Some("runs/b")));
    assert_eq!(config.self_play.sampling.temperature, 0.5);
    assert_eq!(config.evaluation.epochs, Some(vec![1, 3]));
    assert_eq!(config.rewards.reward_norm, RewardNorm::Mean);
}

#[test]
fn bad_overrides_are_refused() {
    for text in ["seed", "=3", "train..x=1"] {
        let said = message("seed = 0", &[text]);
        assert!(said.contains(&format!("--set {text}: an override is written key=value")), "{said}");
    }
    let said = message("seed = 0", &["self_play.gams=3"]);
    assert!(said.contains("--set self_play.gams=3: unknown setting `gams`; did you mean `games`?"), "{said}");
    let said = message("seed = 0", &["epochs=many"]);
    assert!(said.contains("--set epochs=many"), "{said}");
}

#[test]
fn invalid_values_are_refused() {
    for (text, setting) in [
        ("[imitation]\ngames = 0", "imitation.games"),
        ("max_turns = 0", "max_turns"),
        ("[self_play]\ntemperature = -1.0", "self_play.temperature"),
        ("[rewards]\ndecay_weight = 0.0", "rewards.decay_weight"),
        ("[evaluation]\nepochs = [4]", "evaluation.epochs"),
        ("[train]\nlearning_rate = -1.0", "learning_rate"),
    ] {
        let said = message(text, &[]);
        assert!(said.contains(setting), "{text}: {said}");
    }
}

#[test]
fn file_extends_another_but_not_itself() {
    let repository = Repository::new();
    repository.config("below.toml", "seed = 3\n[self_play]\ngames = 10\ntemperature = 0.7\n");
    let config = repository.load("extends = \"below.toml\"\n[self_play]\ngames = 20\n", &[]).unwrap();
    assert_eq!((config.seed, config.self_play.games, config.self_play.sampling.temperature), (3, Some(20), 0.7));

    let loops = repository.load("extends = \"a.toml\"\n", &[]).unwrap_err();
    assert!(matches!(loops, Error::ExtendsItself { .. }), "{loops}");
    let missing = repository.load("extends = \"nowhere.toml\"\n", &[]).unwrap_err().to_string();
    assert!(missing.contains("nowhere.toml"), "{missing}");
}

#[test]
fn inputs_are_found_beside_the_folder_of_the_configuration() {
    let repository = Repository::new();
    let config = repository.load("base_model = \"data/tiny-llama\"\n", &[]).unwrap();
    assert!(config.base_model.ends_with("data/tiny-llama") && config.base_model.is_dir());
    let said = repository.load("[words]\nfile = \"data/no-words.txt\"\n", &[]).unwrap_err().to_string();
    assert!(said.contains("setting `words.file`") && said.matches("data/no-words.txt").count() == 2, "{said}");
}

#[test]
fn resolved_configuration_reads_back_as_itself() {
    let repository = Repository::new();
    let config = repository.load("seed = 5\n[train]\nmax_steps = 7\n", &[]).unwrap();
    let again = repository.load(&config.to_toml().unwrap(), &[]).unwrap();
    assert_eq!(again, config);
}

#[test]
fn invalid_value_is_reported_with_the_layer_that_it_is_from() {
    let repository = Repository::new();
    repository.config("below.toml", "[self_play]\ngames = 0\n");
    let above = repository.config("above.toml", "extends = \"below.toml\"\nseed = 3\n");
    let said = load(&above, &[]).unwrap_err().to_string();
    assert!(said.contains("below.toml: setting `self_play.games`: expected a whole number of at least 1"), "{said}");
    let said = load(&above, &["self_play.games=2", "max_turns=0"]).unwrap_err().to_string();
    assert!(said.contains("--set max_turns=0: setting `max_turns`") && said.contains("not 0"), "{said}");
    assert_eq!(load(&above, &["self_play.games=2"]).unwrap().self_play.games, Some(2), "a higher layer mends it");
}

#[test]
fn training_takes_the_flags_of_spag_train() {
    let repository = Repository::new();
    let text =
        "[train]\nzero_stage = 3\nlearning_rate = 1e-3\noffload_param = \"cpu\"\n[imitation.train]\nbf16 = true\n";
    let config = repository.load(text, &["train.offload_optimizer=none"]).unwrap();
    let (train, imitation) = (&config.train, &config.imitation.train);
    assert_eq!((train.job.zero_stage, train.learning_rate), (Some(ZeroStage::Parameters), 1e-3));
    assert_eq!(
        (train.job.offload_param, train.job.offload_optimizer),
        (Some(Placement::Host), Some(Placement::Device))
    );
    assert!(imitation.bf16 && imitation.job.zero_stage.is_none());
    let said = message("[train]\nmax_length = 3\nzero_stage = 7\n", &[]);
    assert!(said.contains("a.toml, line 3") && said.contains("unknown ZeRO stage 7"), "{said}");
    let said = message("[train]\nmax_length = 3\nbf16 = \"yes\"\n", &[]);
    assert!(said.contains("a.toml, line 3") && said.contains("bf16 = \"yes\""), "{said}");
    let said = message("[train]\nmax_length = 3\nzero_stge = 1\n", &[]);
    assert!(said.contains("a.toml, line 3: unknown setting `zero_stge`; did you mean `zero_stage`?"), "{said}");
    let said = message("[train]\ndeepspeed = \"configs/none.json\"\n", &[]);
    assert!(said.contains("setting `train.deepspeed`") && said.contains("not found"), "{said}");
}

#[test]
fn sources_need_what_they_read() {
    for (text, part) in [
        ("[imitation]\nsource = \"games\"", "setting `imitation.file`: the source \"games\" needs a file"),
        ("[imitation]\nsource = \"samples\"", "setting `imitation.file`: the source \"samples\" needs a file"),
        ("[imitation]\nfile = \"data\"", "setting `imitation.file`: the source \"scripted\" reads no file"),
        ("[imitation]\nsource = \"endpoint\"", "setting `imitation.player`"),
        ("[imitation]\nsource = \"endpoint\"\nplayer = \"data\"", "expected an endpoint"),
        ("[imitation]\nsource = \"gpt\"", "line 2"),
        ("[imitation]\nsource = \"gpt\"", "or a table of sources with their shares"),
        ("[imitation.source]\nself = 0.5\ngpt = 0.5", "or a table of sources with their shares"),
        ("[imitation]\nsource = { self = 0.5, scripted = 0.4 }", "setting `imitation.source`: the shares sum to 0.9"),
        (
            "[imitation]\nsource = { self = 1.5, scripted = -0.5 }",
            "setting `imitation.source`: the share of scripted is -0.5",
        ),
        ("[imitation]\nsource = { self = nan, scripted = 0.5 }", "the share of self is NaN"),
        ("[imitation]\nsource = { self = 0.5, none = 0.5 }", "\"none\" has no samples to mix"),
        ("[imitation]\nfile = \"data\"\nsource = { games = 0.5, samples = 0.5 }", "both read imitation.file"),
        (
            "[imitation]\nsource = { self = 0.5, games = 0.5 }",
            "setting `imitation.file`: the source \"games\" needs a file",
        ),
        ("[imitation]\nfile = \"data\"\nsource = { self = 0.5, scripted = 0.5 }", "reads no file"),
        ("[imitation]\nsource = { self = 0.5, endpoint = 0.5 }", "setting `imitation.player`"),
        ("[sft]\nshare = \"whole\"", "setting `sft.share`: \"whole\" needs sft.file"),
        ("[sft]\nshare = \"half\"", "a number of SFT samples per game sample, or \"whole\""),
        ("[words]\nholdout = 1.0", "setting `words.holdout`"),
        ("words = \"words.txt\"", "expected a table: [words] with file ="),
        ("[stop_when]\nties = 1.5", "setting `stop_when.ties`"),
        (
            "method = \"online\"\n[stop_when]\nleast_item_information = 0.1",
            "setting `stop_when.least_item_information`: the information is not measured",
        ),
        ("[self_play]\ndtype = \"f16\"", "expected auto, f32 or bf16"),
    ] {
        let said = message(text, &[]);
        assert!(said.contains(part), "{text}: {said}");
    }
    let whole = Repository::new().load("[sft]\nfile = \"data/tiny-llama\"\nshare = \"whole\"", &[]).unwrap();
    assert_eq!(whole.sft.share, SftShare::All(Whole::File));
    assert!(whole.uses_small_world(), "it has no words of its own");
}

#[test]
fn chain_of_files_is_bounded() {
    let repository = Repository::new();
    for number in 0..40 {
        repository.config(&format!("{number}.toml"), &format!("extends = \"{}.toml\"\n", number + 1));
    }
    let last = repository.config("40.toml", "seed = 9\n");
    assert_eq!(load(&last.with_file_name("9.toml"), &[]).unwrap().seed, 9, "32 files");
    let said = load(&last.with_file_name("8.toml"), &[]).unwrap_err().to_string();
    assert!(said.contains("more than 32 configurations extend each other"), "{said}");
}

#[test]
fn unset_removes_what_files_and_earlier_overrides_set() {
    let repository = Repository::new();
    let text = "seed = 3\n[imitation.train]\nlearning_rate = 1e-3\nbf16 = true\n[stop_when]\nties = 0.5\n";
    let load = |overrides: &[&str]| repository.load(text, overrides);
    let default = RunConfig::default();
    assert_eq!(load(&["stop_when=unset"]).unwrap().stop_when, default.stop_when);
    let unset = load(&["imitation.train.lm_kl_coeff=0.3", "imitation.train.learning_rate = unset"]).unwrap();
    assert_eq!(unset.imitation.train.learning_rate, default.imitation.train.learning_rate);
    assert_eq!((unset.imitation.train.bf16, unset.imitation.train.lm_kl_coeff), (true, 0.3));
    // The default of the stage, not that of the type; of the last override, and of what was not set.
    assert_eq!(
        load(&["train.train_method=SFT", "train.train_method=unset"]).unwrap().train.method,
        TrainMethod::OfflinePo
    );
    assert_eq!(load(&["seed=unset"]).unwrap().seed, 0);
    assert_eq!(load(&["seed=unset", "seed=9"]).unwrap().seed, 9);
    assert_eq!(load(&["online.updates=unset", "self_play.games=unset"]).unwrap().self_play.games, None);
    for (key, nearest) in [("train.learning_rat=unset", "learning_rate"), ("benchmark=unset", "benchmarks")] {
        let said = load(&[key]).unwrap_err().to_string();
        assert!(said.contains(&format!("--set {key}: unknown setting")) && said.contains(nearest), "{said}");
    }
}

#[test]
fn policy_of_an_on_policy_run_is_not_held_to_actions() {
    let repository = Repository::new();
    let held = "self_play.constrain_actions=true";
    let online = repository.load("seed = 0", &[held, "method=online"]).unwrap_err().to_string();
    assert!(online.contains("self_play.constrain_actions") && online.contains("on-policy"), "{online}");
    assert!(repository.load("seed = 0", &[held]).unwrap().self_play.constrain_actions);
}
