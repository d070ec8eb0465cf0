//! Damaged and hostile files and settings of credit assignment: refused by name, and nothing is replaced.

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use spag_game::{Taboo, taboo};
use spag_rewards::{
    AlpacaTemplate, AssignJob, CreditConfig, CreditSummary, Result, SampleReasoning, assign_rewards_in_files,
    convert_alpaca, convert_imitation, read_samples,
};

const EPISODE: &str = r#"{"history": [{"role": "attacker", "content": "What do you eat?"},
    {"role": "defender", "content": "I know the word! It is tea"}], "target_word": "tea", "max_turns": 5}"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn assign(&self, episodes: impl AsRef<[u8]>, sft: Option<&str>) -> Result<CreditSummary> {
        let job = AssignJob {
            input: self.file("in.json", episodes),
            sft: sft.map(|text| self.file("sft.json", text)),
            output: self.0.path().join("out.json"),
            outcomes: Some(self.0.path().join("outcomes.jsonl")),
        };
        assign_rewards_in_files(&job, &Taboo::default(), &CreditConfig::default(), NonZeroUsize::new(2).unwrap())
    }
}

#[test]
fn empty_file_is_refused_by_name_and_replaces_nothing() {
    let folder = Folder::new();
    let (output, outcomes) = (folder.file("out.json", "kept"), folder.file("outcomes.jsonl", "kept"));
    for empty in ["", "\n \n"] {
        let error = folder.assign(empty, None).unwrap_err().to_string();
        assert!(error.contains("in.json: the file is empty"), "{error}");
        let error = folder.assign(format!("[{EPISODE}]"), Some(empty)).unwrap_err().to_string();
        assert!(error.contains("sft.json: the file is empty"), "{error}");
        let input = folder.file("in.json", empty);
        let error =
            convert_imitation(&input, &output, &Taboo::default(), (0, &SampleReasoning::default())).unwrap_err();
        assert!(error.to_string().contains("in.json: the file is empty"), "{error}");
        let error = convert_alpaca(&input, &output, &AlpacaTemplate::default()).unwrap_err();
        assert!(error.to_string().contains("in.json: the file is empty"), "{error}");
    }
    assert_eq!([&output, &outcomes].map(|path| fs::read_to_string(path).unwrap()), ["kept", "kept"]);
    // A list says that there are no episodes.
    assert_eq!(folder.assign("[]", Some("[]")).unwrap().episodes(), 0);
    assert_eq!(read_samples(&output).unwrap(), []);
}

#[test]
fn negative_weight_is_refused_with_its_row() {
    let folder = Folder::new();
    let sample = |weight| format!(r#"{{"query": "q", "target": "t", "weight": {weight}}}"#);
    let error = read_samples(folder.file("s.jsonl", format!("{}\n{}\n", sample(0), sample(-1)))).unwrap_err();
    let expected = "s.jsonl: row 2: `weight` is -1, but must be a number of at least 0";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn game_whose_samples_fill_the_memory_is_refused_with_its_row() {
    let folder = Folder::new();
    let turn = r#"{"role": "attacker", "content": "Mmmmmmmmmmmmmmmmmmmmm?"}, {"role": "defender", "content": "No."}, "#;
    // 30,000 samples of half a megabyte each.
    let long = EPISODE.replace("\"history\": [", &format!("\"history\": [{}", turn.repeat(30_000)));
    let started = Instant::now();
    let error = folder
        .assign(format!("{}\n{}", EPISODE.replace('\n', ""), long.replace('\n', "").replace(": 5", ": 99999")), None);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("in.json: row 2: the 30001 samples of this game"), "{error}");
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
}

#[test]
fn long_utterances_and_words_are_credited() {
    let folder = Folder::new();
    let utterance = "What do you eat? ".repeat(200_000);
    let credited = folder.assign(format!("[{}]", EPISODE.replace("What do you eat?", &utterance)), None).unwrap();
    assert_eq!((credited.games.wins(taboo::DEFENDER), credited.samples_of(taboo::DEFENDER)), (1, 1));
    let word = "tea".repeat(100_000);
    let credited = folder.assign(format!("[{}]", EPISODE.replace("\"tea\"", &format!("{word:?}"))), None).unwrap();
    assert_eq!(credited.games.wins(taboo::ATTACKER), 1);
}

#[test]
fn error_of_a_row_repeats_little_of_it() {
    let folder = Folder::new();
    let long = "x".repeat(1 << 20);
    for bad in [
        format!(r#"{{"history": [], "target_word": "  ", "{long}": 1}}"#),
        format!(r#"{{"history": [{{"role": "{long}", "content": "a"}}], "target_word": "tea"}}"#),
        format!(r#"{{"history": "{long}", "target_word": "tea"}}"#),
    ] {
        let error = folder.assign(format!("[{EPISODE}, {bad}]"), None).unwrap_err().to_string();
        assert!(error.contains("in.json: row 2: ") && error.len() < 1000, "{}", &error[..1000]);
    }
}
