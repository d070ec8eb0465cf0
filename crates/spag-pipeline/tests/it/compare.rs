//! Runs side by side.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spag_pipeline::{Error, arms_document, read_arms, render_arms};
use spag_run::document::{Document, Part};

use crate::common::report::made_up;

/// A finished run, whose last model ends all its games as the defender in a tie if `ties`.
fn run(dir: &Path, name: &str, seed: u64, ties: bool) -> PathBuf {
    let folder = dir.join(name);
    fs::create_dir_all(&folder).unwrap();
    let mut report = serde_json::to_value(made_up(seed)).unwrap();
    report["seed"] = seed.into();
    if ties {
        let games = &mut report["matches"].as_array_mut().unwrap().last_mut().unwrap()["as_defender"];
        let none = json!({"count": 0, "total": 0, "share": null, "low": 0.0, "high": 1.0});
        (games["attacker_win"], games["defender_win"]) = (none.clone(), none);
    }
    fs::write(folder.join("report.json"), report.to_string()).unwrap();
    let control = if ties { "control = \"random_winner\"\n" } else { "" };
    fs::write(folder.join("config.resolved.toml"), format!("seed = {seed}\n{control}")).unwrap();
    folder
}

fn number(value: &Value, keys: &[&str]) -> f64 {
    keys.iter().fold(value, |value, key| &value[*key]).as_f64().unwrap()
}

#[test]
fn seeds_of_an_arm_are_pooled_and_ties_count_in_scores() {
    let dir = tempfile::tempdir().unwrap();
    let folders: Vec<PathBuf> = [("a-1", 1, false), ("a-2", 2, false), ("b-1", 1, true), ("b-2", 2, true)]
        .map(|(name, seed, ties)| run(dir.path(), name, seed, ties))
        .to_vec();
    let arms = read_arms(&folders).unwrap();
    assert_eq!(arms.iter().map(|arm| (&*arm.name, arm.reports.len())).collect::<Vec<_>>(), [("a", 2), ("b", 2)]);

    let text = render_arms(&arms);
    // All games of arm b as the defender are ties: a score of 0, and no win rate.
    let baselines = [1, 2].map(|seed| serde_json::to_value(made_up(seed)).unwrap()["baseline"].clone());
    let sum = |key: &[&str]| baselines.iter().map(|baseline| number(baseline, key)).sum::<f64>();
    let score = (sum(&["defender_win", "count"]) - sum(&["attacker_win", "count"])) / sum(&["games"]);
    let sign = if score > 0.0 { '−' } else { '+' };
    let points = format!("{sign}{:.1} [", 100.0 * score.abs());
    let tables: Vec<&str> = text.split("of the last model").collect();
    let row = |table: &str| table.lines().find(|line| line.trim().starts_with("b ")).unwrap().to_owned();
    assert!(tables[0].starts_with("Win rates") && row(tables[1]).contains("  –"), "{text}");
    assert!(row(tables[2]).contains(&points), "{points} in\n{text}");
    // The attackers of both arms are the same, seed by seed.
    assert!(row(tables[1]).contains("+0.0 (1.000)"), "{text}");

    let document = arms_document(&arms);
    assert_eq!(Document::of_html(&document.html()).unwrap().sections, document.sections);
    let [curves, last] = &document.sections[..] else { panic!("{document:?}") };
    let [Part::Charts(charts)] = &curves.parts[..] else { panic!("{curves:?}") };
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!((titles.len(), titles[1]), (6, "Score as defender"));
    for chart in charts {
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!((names, chart.rule), (vec!["a", "b"], Some(0.0)));
        assert!(chart.series.iter().all(|series| series.points[0] == [0.0, 0.0] && !series.intervals.is_empty()));
    }
    for part in &last.parts {
        let Part::Table(table) = part else { panic!("{part:?}") };
        assert!(text.contains(&table.title) && table.rows.iter().flatten().all(|cell| text.contains(cell)), "{text}");
    }
}

#[test]
fn seeds_are_compared_by_how_far_they_are_from_perfect_play() {
    let dir = tempfile::tempdir().unwrap();
    let folders: Vec<PathBuf> = [("a-1", 1, [0.5, 0.3, 0.2, 0.06]), ("a-2", 2, [0.5, 0.4, 0.1, 0.1])]
        .map(|(name, seed, exploitability)| {
            let folder = run(dir.path(), name, seed, false);
            let path = folder.join("report.json");
            let mut report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            let measured = exploitability.map(|number| {
                json!({"model": "a model", "bold": vec![[0.5; 3]; 4], "exploitability": number, "match_value": null, "invalid": 0.0})
            });
            report["exact"] = measured.to_vec().into();
            fs::write(path, report.to_string()).unwrap();
            folder
        })
        .to_vec();
    let arms = read_arms(&folders).unwrap();
    let text = render_arms(&arms);
    let (_, table) = text.split_once("Exploitability of the last model, chips a round, over seeds").unwrap();
    let row: Vec<&str> = table.lines().find(|line| line.trim().starts_with("a ")).unwrap().split_whitespace().collect();
    assert_eq!(row, ["a", "2", "0.080", "0.060", "0.100"]);

    let document = arms_document(&arms);
    let section = document.sections.iter().find(|section| section.heading == "Against perfect play").unwrap();
    let [Part::Charts(charts)] = &section.parts[..] else { panic!("{section:?}") };
    let [line] = &charts[0].series[..] else { panic!("{charts:?}") };
    let means: Vec<f64> = line.points.iter().map(|[_, mean]| (1e6 * mean).round() / 1e6).collect();
    assert_eq!((means, line.points[0][0]), (vec![0.5, 0.35, 0.15, 0.08], 0.0));
    assert_eq!(line.intervals[1..3], [[0.3, 0.4], [0.1, 0.2]]);
}

#[test]
fn runs_that_cannot_be_compared_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let one = run(dir.path(), "a-1", 1, false);
    let said = |folders: &[PathBuf]| match read_arms(folders) {
        Err(Error::Malformed { place, message }) => format!("{place}: {message}"),
        other => panic!("{other:?}"),
    };
    assert!(said(&[one.clone(), one.clone()]).contains("the arm a has seed 1 already"));
    let empty = dir.path().join("empty");
    fs::create_dir_all(&empty).unwrap();
    let missing = said(&[one, empty]);
    assert!(missing.contains("empty/report.json: there is no report"), "{missing}");
}
