//! Files in and out: demonstrations, layouts, and error messages.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use serde_json::json;
use spag_game::{Taboo, taboo};
use spag_rewards::{
    AlpacaTemplate, AssignJob, CreditConfig, CreditSummary, Error, Result, SampleKind, SampleReasoning,
    assign_rewards_in_files, convert_alpaca, convert_imitation, read_samples, write_samples,
};
use spag_tests::json as read_json;
use tempfile::TempDir;

const EPISODES: &str = r#"[
  {"history": [{"role": "attacker", "content": "What do you eat?"}, {"role": "defender", "content": " An apple.\n"}],
   "target_word": "apple", "max_turns": 5, "source": "test"},
  {"history": [{"role": "attacker", "content": "It has wheels."}, {"role": "defender", "content": "Hm."},
               {"role": "attacker", "content": "And an engine."}, {"role": "defender", "content": "I know the word! It is `car`!"}],
   "target_word": "car", "max_turns": 5},
  {"history": [{"role": "attacker", "content": "A spoon."}], "target_word": "spoon", "max_turns": 5},
  {"history": [{"role": "attacker", "content": "Hello."}, {"role": "defender", "content": "Hello."}], "target_word": "fork", "max_turns": 1}
]"#;

const THREADS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn assign(&self, input: &Path, sft: Option<&Path>) -> Result<CreditSummary> {
        let job = AssignJob {
            input: input.to_owned(),
            sft: sft.map(Path::to_owned),
            output: self.path("out.json"),
            outcomes: Some(self.path("outcomes.jsonl")),
        };
        assign_rewards_in_files(&job, &Taboo::default(), &CreditConfig::default(), THREADS)
    }
}

#[test]
fn demonstrations_follow_the_games() {
    let folder = Folder::new();
    let sft = r#"{"prompt": "2+2=", "answer": "4", "weight": 7, "id": 3}
{"query": "3+3=", "target": " 6 "}
"#;
    let summary = folder.assign(&folder.file("in.json", EPISODES), Some(&folder.file("sft.jsonl", sft))).unwrap();
    assert_eq!(
        {
            let games = &summary.games;
            let won = taboo::LABELS.seats.map(|seat| games.rewarded_wins(seat));
            (won[0], won[1], games.broken_rules(), games.ties())
        },
        (1, 1, 1, 1)
    );
    assert_eq!(
        (summary.samples_of(taboo::ATTACKER), summary.samples_of(taboo::DEFENDER), summary.sft_samples),
        (1, 2, 2)
    );

    let written = read_json(folder.path("out.json"));
    let keys = |row: usize| written[row].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(written.as_array().unwrap().len(), 5);
    assert_eq!(keys(0), ["query", "target", "reward", "role", "weight"]);
    assert_eq!((&written[0]["target"], &written[0]["role"]), (&json!("What do you eat?"), &json!("attacker")));
    assert_eq!((&written[1]["target"], &written[1]["role"]), (&json!("Hm."), &json!("defender")));
    assert_eq!(keys(3), ["query", "target", "reward", "weight", "type", "id"]);
    assert_eq!(
        (&written[3]["type"], &written[3]["weight"], &written[3]["target"]),
        (&json!("sft"), &json!(1.0), &json!("4"))
    );
    // A demonstration's text is not stripped.
    assert_eq!(written[4]["target"], " 6 ");
    let outcomes = fs::read_to_string(folder.path("outcomes.jsonl")).unwrap();
    assert_eq!(
        outcomes.lines().collect::<Vec<_>>(),
        [
            r#"{"outcome":"attacker wins","history_length":2}"#,
            r#"{"outcome":"defender wins","history_length":4}"#,
            r#"{"outcome":"attacker breaks the rules","history_length":1}"#,
            r#"{"outcome":"tied game","history_length":2}"#,
        ]
    );
}

#[test]
fn list_is_indented_as_by_python() {
    let folder = Folder::new();
    write_samples(folder.path("none.json"), &[]).unwrap();
    assert_eq!(fs::read_to_string(folder.path("none.json")).unwrap(), "[]\n");
    folder.assign(&folder.file("in.json", EPISODES), None).unwrap();
    let text = fs::read_to_string(folder.path("out.json")).unwrap();
    assert!(text.starts_with("[\n  {\n    \"query\": \"") && text.ends_with("\n  }\n]\n"), "{text}");
    assert_eq!(text.matches("\n  },\n  {\n").count(), 2);
}

#[test]
fn samples_survive_a_round_trip_in_both_layouts() {
    let folder = Folder::new();
    folder.assign(&folder.file("in.json", EPISODES), None).unwrap();
    let samples = read_samples(folder.path("out.json")).unwrap();
    write_samples(folder.path("again.jsonl"), &samples).unwrap();
    assert_eq!(fs::read_to_string(folder.path("again.jsonl")).unwrap().lines().count(), 3);
    assert_eq!(read_samples(folder.path("again.jsonl")).unwrap(), samples);
}

#[test]
fn invalid_sample_names_file_and_row() {
    let folder = Folder::new();
    let good = r#"{"query": "q", "target": "t"}"#;
    for (text, row, why) in [
        (format!("{good}\n\n{{\"query\": \"q\"}}\n"), "row 3", "`target`"),
        (format!("{good}\n{{\"query\": \"q\", "), "row 2", "cut off"),
        (format!("[{good}, {good}"), "row 3", "cut off"),
        (format!("[{good}, {{\"query\": "), "row 2", "cut off"),
        (format!("[{good} {good}]"), "row 1", ""),
        (format!("[{good},]"), "row 2", ""),
        (format!("[{good}] x"), "row 2", ""),
        ("[1]".into(), "row 1", "an object with `query` and `target`"),
        ("[[]]".into(), "row 1", "an object with `query` and `target`"),
        ("17".into(), "row 1", "an object with `query` and `target`"),
        (format!("[{good}, {{\"instruction\": \"i\", \"output\": \"o\"}}]"), "row 2", "spag data alpaca"),
    ] {
        let path = folder.file("sft.json", &text);
        let error = folder.assign(&folder.file("in.json", EPISODES), Some(&path)).unwrap_err();
        let message = error.to_string();
        for part in ["sft.json", row, why] {
            assert!(message.contains(part), "{text}: {message} lacks {part:?}");
        }
    }
    // No incomplete file is left.
    assert_eq!(folder.names(), ["in.json", "sft.json"]);
}

#[test]
fn empty_file_has_no_rows_and_missing_file_is_an_error() {
    let folder = Folder::new();
    for text in ["", " \n", "[]", "\u{feff}[ ]\n"] {
        assert_eq!(read_samples(folder.file("a.json", text)).unwrap(), [], "{text:?}");
    }
    let error = read_samples(folder.path("no.json")).unwrap_err();
    assert!(error.to_string().contains("no.json"), "{error}");
}

#[test]
fn decay_weight_out_of_range_is_refused() {
    let folder = Folder::new();
    let job =
        AssignJob { input: folder.file("in.json", EPISODES), sft: None, output: folder.path("o.json"), outcomes: None };
    for decay_weight in [0.0, -0.8, f64::NAN, f64::INFINITY] {
        let config = CreditConfig { decay_weight, ..CreditConfig::default() };
        let error = assign_rewards_in_files(&job, &Taboo::default(), &config, THREADS).unwrap_err();
        assert!(matches!(error, Error::DecayWeight { .. }), "{error}");
    }
}

#[test]
fn imitation_takes_the_winners_utterances() {
    let folder = Folder::new();
    let (input, output) = (folder.file("gpt4.json", EPISODES), folder.path("train_imitation.json"));
    let game = Taboo::default();
    let summary = convert_imitation(&input, &output, &game, (7, &SampleReasoning::default())).unwrap();
    let samples = read_samples(&output).unwrap();
    let targets: Vec<_> = samples.iter().map(|sample| sample.target.as_str()).collect();
    assert_eq!(targets, ["What do you eat?", "Hm.", "I know the word! It is `car`!"]);
    assert!(samples.iter().all(|s| (s.reward, s.weight, s.kind) == (1.0, 1.0, SampleKind::Game)));
    assert_eq!((summary.samples_of(taboo::ATTACKER), summary.samples_of(taboo::DEFENDER)), (1, 2));
    assert_eq!(summary.weight(taboo::DEFENDER), 1.0);
    // The wordings depend on the seed alone.
    convert_imitation(&input, folder.path("again.json"), &game, (7, &SampleReasoning::default())).unwrap();
    assert_eq!(read_samples(folder.path("again.json")).unwrap(), samples);
}

#[test]
fn alpaca_rows_become_demonstrations() {
    let folder = Folder::new();
    let rows = r#"[{"instruction": "Add.", "input": "1 and 2", "output": "3", "text": "old"}, {"instruction": "Greet.", "output": "Hi"}]"#;
    let (input, output) = (folder.file("alpaca.json", rows), folder.path("sft.json"));
    assert_eq!(convert_alpaca(&input, &output, &AlpacaTemplate::default()).unwrap(), 2);
    let written = read_json(&output);
    assert_eq!(written[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["prompt", "target"]);
    assert!(written[0]["prompt"].as_str().unwrap().contains("1 and 2"));
    // The output is valid as demonstrations.
    let summary = folder.assign(&folder.file("in.json", EPISODES), Some(&output)).unwrap();
    assert_eq!(summary.sft_samples, 2);
    let error =
        convert_alpaca(folder.file("bad.json", r#"[{"instruction": "x"}]"#), &output, &AlpacaTemplate::default());
    assert!(error.unwrap_err().to_string().contains("bad.json: row 1"));
}
