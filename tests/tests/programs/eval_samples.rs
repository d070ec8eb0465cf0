//! `spag eval` with several sampled answers of a row.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_tests::{fixture, json, json_lines, program, run};

const TASK: &str = "[[task]]\nname = 'drinks'\nfile = 'rows.jsonl'\nprompt = 'q'\ntarget = 'a'\nmax_new_tokens = 5\n\
                    samples = 4\ntemperature = 1.0\ntop_p = 0.9\nseed = 3\nmetrics = ['mean@4', 'pass@2', 'maj@3']\n";

fn eval(dir: &Path, tasks: &str, code: i32) -> String {
    let rows: String = (0..6).map(|i| format!("{}\n", json!({"q": format!("Number {i}?"), "a": "x"}))).collect();
    fs::write(dir.join("rows.jsonl"), rows).unwrap();
    fs::write(dir.join("tasks.toml"), tasks).unwrap();
    let mut command = program("spag");
    command.current_dir(dir).args(["eval", "--tasks", "tasks.toml", "--output_dir", "out", "--names", "m", "--model"]);
    run(command.arg(fixture("tiny-llama")), code).1
}

#[test]
fn samples_are_drawn_by_seed_and_resumed_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    eval(dir, TASK, 0);
    let (samples, record) = (dir.join("out/m/samples_drinks.jsonl"), dir.join("out/m/record_drinks.jsonl"));
    let whole = fs::read_to_string(&samples).unwrap();
    let rows = json_lines(&samples);
    for row in &rows {
        let texts = row["resps"][0].as_array().unwrap();
        assert_eq!((texts.len(), row["filtered_resps"].as_array().unwrap().len()), (4, 4));
        assert!(texts.iter().any(|text| *text != texts[0]), "draws differ: {row}");
    }
    assert!(rows.iter().any(|row| row["resps"] != rows[0]["resps"]));
    let results = json(dir.join("out/m/results.json"));
    let config = &results["configs"]["drinks"];
    assert_eq!((&config["repeats"], &config["generation_kwargs"]["temperature"]), (&json!(4), &json!(1.0)));
    for metric in ["mean@4,none", "pass@2,none", "maj@3,none"] {
        assert_eq!(results["results"]["drinks"][metric], json!(0.0), "{results}");
    }

    // Half of the answers are lost, and one is torn.
    let lines: Vec<String> = fs::read_to_string(&record).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 1 + 6 * 4);
    fs::write(&record, lines[..12].join("\n") + "\n{\"row\":").unwrap();
    eval(dir, TASK, 0);
    assert_eq!(fs::read_to_string(&samples).unwrap(), whole);

    let err = eval(dir, &TASK.replace("seed = 3", "seed = 4"), 2);
    assert!(err.contains("another task"), "{err}");
}

/// The right answers are those that the model gives, so that every estimate can be counted by hand.
#[test]
fn metrics_are_those_of_the_samples() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    eval(dir, TASK, 0);
    let rows = json_lines(dir.join("out/m/samples_drinks.jsonl"));
    let targets: Vec<Value> = rows.iter().map(|row| json!({"q": row["doc"]["q"], "a": row["resps"][0][0]})).collect();
    fs::remove_dir_all(dir.join("out")).unwrap();
    let lines: String = targets.iter().map(|row| format!("{row}\n")).collect();
    fs::write(dir.join("right.jsonl"), lines).unwrap();
    eval(dir, &TASK.replace("rows.jsonl", "right.jsonl"), 0);
    let scored = json_lines(dir.join("out/m/samples_drinks.jsonl"));
    let mut means = [0.0; 3];
    for row in &scored {
        let texts: Vec<&str> = row["resps"][0].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        let right = texts.iter().filter(|text| **text == row["target"]).count();
        assert!(right > 0, "the first sample is right: {row}");
        assert_eq!(row["mean@4"], right as f64 / 4.0);
        let pairs = (4 - right) * (3_usize.saturating_sub(right)) / 2;
        assert!((row["pass@2"].as_f64().unwrap() - (1.0 - pairs as f64 / 6.0)).abs() < 1e-12, "{row}");
        let first = texts[..3].iter().filter(|text| **text == texts[0]).count();
        let is_most = texts[..3].iter().all(|text| texts[..3].iter().filter(|other| *other == text).count() <= first);
        assert_eq!(row["maj@3"], f64::from(u8::from(is_most)), "{row}");
        for (mean, metric) in means.iter_mut().zip(["mean@4", "pass@2", "maj@3"]) {
            *mean += row[metric].as_f64().unwrap() / scored.len() as f64;
        }
    }
    let results = &json(dir.join("out/m/results.json"))["results"]["drinks"];
    for (mean, metric) in means.iter().zip(["mean@4", "pass@2", "maj@3"]) {
        assert!((results[format!("{metric},none")].as_f64().unwrap() - mean).abs() < 1e-12);
    }
}

#[test]
fn settings_of_samples_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, said) in [
        ("samples = 4", "samples = 2", "`mean@4` needs 4 samples, and a row has 2"),
        ("temperature = 1.0", "temperature = 0.0", "would be equal without a temperature"),
        ("temperature = 1.0", "temperature = -1.0", "temperature is -1"),
        ("samples = 4", "samples = 0", "samples is 0"),
        ("top_p = 0.9", "top_p = 0.0", "top_p must be above 0"),
        ("'maj@3'", "'maj@0'", "`maj@0` is no metric"),
        ("target = 'a'", "choices = ['a', 'b']\nanswer = '0'", "does not belong"),
    ] {
        let err = eval(folder.path(), &TASK.replace(from, to), 2);
        assert!(err.contains(said), "{said}: {err}");
    }
}
