//! The real `spag show`: output, filters, escapes, broken files and closed pipes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spag_tests::{program, run};

fn show(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = program("spag");
    command.current_dir(dir).arg("show").args(arguments);
    command
}

fn row(word: &str, said: &[&str], game: Option<u64>) -> String {
    let roles = ["attacker", "defender"].into_iter().cycle();
    let history: Vec<_> = roles.zip(said).map(|(role, content)| json!({"role": role, "content": content})).collect();
    let mut row = json!({"history": history, "target_word": word, "max_turns": 3});
    if let Some(game) = game {
        row["game"] = game.into();
    }
    row.to_string()
}

/// Five games, one of each ending.
fn games() -> [String; 5] {
    [
        row("tiger", &["It has stripes.", "I know the word! It is tiger!", "Right.", "Yes."], Some(8)),
        row("horse", &["Knights ride on it.", "I know the word! It is donkey!"], Some(6)),
        row("tiger", &["Hello.", "My tiger is ill."], Some(7)),
        row("horse", &["Say horse."], Some(5)),
        row("bear", &["Hm.", "Hm.", "Hm.", "Hm.", "Hm.", "Hm."], Some(9)),
    ]
}

fn heads(out: &str) -> Vec<&str> {
    out.lines().filter(|line| line.starts_with("game ") || line.starts_with("row ")).collect()
}

#[test]
fn games_are_printed_with_their_endings() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("games.jsonl"), games().join("\n")).unwrap();
    let (out, err) = run(&mut show(dir, &["games.jsonl"]), 0);
    assert_eq!(err, "");
    let first = "game 8, row 1: tiger (3 turns at most)\n  \
        attacker  It has stripes.\n  \
        defender  I know the word! It is tiger!\n  \
        → defender names the word and wins (utterance 2)\n  \
        what was said afterwards does not count:\n  \
        attacker  Right.\n  \
        defender  Yes.\n\n";
    assert!(out.starts_with(first), "{out}");
    for ending in [
        "→ defender names a wrong word, attacker wins (utterance 2)",
        "→ defender says the word unknowingly, attacker wins (utterance 2)",
        "→ attacker breaks the rules (utterance 1)",
        "→ tied after utterance 6",
    ] {
        assert!(out.contains(ending), "{ending}: {out}");
    }
    assert!(out.ends_with("\n5 of 5 games read shown\n") && !out.contains('\x1b'), "{out}");
    // A JSON list of the same games.
    fs::write(dir.join("games.json"), format!("[{}]", games().join(",\n"))).unwrap();
    assert_eq!(run(&mut show(dir, &["games.json"]), 0).0, out);
}

#[test]
fn reasoning_is_printed_if_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut game: Value = serde_json::from_str(&row("tiger", &["It has stripes.", ""], None)).unwrap();
    game["history"][0]["reasoning"] = format!("{}\u{1b}[2J", "word ".repeat(60)).into();
    game["history"][1]["reasoning"] = "Stripes?".into();
    game["history"][1]["reasoning_end"] = "unfinished".into();
    fs::write(dir.join("games.jsonl"), game.to_string()).unwrap();
    let (plain, _) = run(&mut show(dir, &["games.jsonl"]), 0);
    assert!(!plain.contains("word") && !plain.contains("Stripes?"), "{plain}");
    let (out, _) = run(&mut show(dir, &["games.jsonl", "--reasoning"]), 0);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[1], "  attacker thinks:");
    assert!(out.contains("\n            word word") && out.matches("word").count() == 60, "{out}");
    assert!(lines.iter().all(|line| line.chars().count() <= 100) && out.contains("\\u{1b}[2J\n"), "{out}");
    let rest = "  attacker  It has stripes.\n  defender thinks, unfinished:\n            Stripes?\n  defender\n  →";
    assert!(out.contains(rest), "{out}");
}

#[test]
fn filters_are_combined() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("games.jsonl"), games().join("\n")).unwrap();
    fs::write(dir.join("plain.jsonl"), [row("a", &["b"], None), row("c", &["d"], None)].join("\n")).unwrap();
    for (arguments, numbers, closing) in [
        (&["games.jsonl", "--word", "Tiger"][..], &["game 8", "game 7"][..], "2 of 5 games"),
        (&["games.jsonl", "--outcome", "attacker_wins"], &["game 6", "game 7"], "2 of 5"),
        (&["games.jsonl", "--outcome", "attacker_wins", "--word", "horse"], &["game 6"], "1 of 5"),
        (&["games.jsonl", "--outcome", "attacker_breaks_rules"], &["game 5"], "1 of 5"),
        (&["games.jsonl", "--outcome", "tie"], &["game 9"], "1 of 5"),
        (&["games.jsonl", "--outcome", "defender_wins", "--limit", "1"], &["game 8"], "1 of 1 game "),
        (&["games.jsonl", "--game", "5"], &["game 5"], "1 of 5"),
        (&["games.jsonl", "--game", "1"], &[], "0 of 5"),
        (&["games.jsonl", "--limit", "3"], &["game 8", "game 6", "game 7"], "3 of 3"),
        // Without numbers in the file, rows are counted.
        (&["plain.jsonl", "--game", "2"], &["row 2"], "1 of 2"),
        // The judges disagree on "art" in "start".
        (&["games.jsonl", "--judge", "whole-word", "--limit", "1"], &["game 8"], "1 of 1"),
    ] {
        let (out, _) = run(&mut show(dir, arguments), 0);
        let found: Vec<&str> = heads(&out).iter().map(|head| head.split([',', ':']).next().unwrap()).collect();
        assert_eq!(found, numbers, "{arguments:?}: {out}");
        assert!(out.lines().last().unwrap().starts_with(closing), "{arguments:?}: {out}");
    }
    let (_, err) = run(&mut show(dir, &["games.jsonl", "--outcome", "lost"]), 2);
    assert!(err.contains("attacker_breaks_rules"), "{err}");
    fs::write(dir.join("art.jsonl"), row("art", &["Let us start."], None)).unwrap();
    let ending = |judge: &str| run(&mut show(dir, &["art.jsonl", "--judge", judge]), 0).0;
    assert!(ending("paper").contains("breaks the rules") && ending("whole-word").contains("tied"));
}

#[test]
fn games_before_a_broken_row_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let [a, b, ..] = games();
    for (file, row, reason) in [
        (format!("{a}\n{b}\n{{\"history\": \n"), "row 3", "broken"),
        (format!("[{a}, {b}, {{\"history\": ["), "row 3", "cut off"),
        (format!("{a}\n{b}\n{}", row_of_defender()), "row 3", "attacker's turn"),
    ] {
        fs::write(dir.join("games"), &file).unwrap();
        let (out, err) = run(&mut show(dir, &["games"]), 2);
        assert_eq!(heads(&out).len(), 2, "{reason}: {out}");
        assert!(out.ends_with("2 of 2 games read shown\n"), "{out}");
        assert!(err.starts_with("error: games: ") && err.contains(row), "{reason}: {err}");
        // With a lower limit the bad row is not read.
        run(&mut show(dir, &["games", "--limit", "2"]), 0);
    }
    let (_, err) = run(&mut show(dir, &["absent.jsonl"]), 2);
    assert!(err.contains("absent.jsonl"), "{err}");
}

fn row_of_defender() -> String {
    json!({"history": [{"role": "defender", "content": "a"}], "target_word": "b"}).to_string()
}

#[test]
fn control_characters_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let wild = "\u{1b}]0;title\u{7}\u{1b}[2J\u{202e}a\rb\u{9b}31m\nnext line";
    fs::write(dir.join("games.jsonl"), row(wild, &[wild], None)).unwrap();
    let (out, _) = run(&mut show(dir, &["games.jsonl"]), 0);
    assert!(out.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{out:?}");
    let said = "  attacker  \\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{202e}a\\rb\\u{9b}31m\n            next line\n";
    assert!(out.contains(said), "{out}");
    // Long lines are wrapped.
    let long = "word ".repeat(60);
    fs::write(dir.join("long.jsonl"), row("bear", &[&long], None)).unwrap();
    let (out, _) = run(&mut show(dir, &["long.jsonl"]), 0);
    let widest = out.lines().map(|line| line.chars().count()).max().unwrap();
    assert!((90..=100).contains(&widest) && out.matches("word").count() == 60, "{widest}: {out}");
}

#[test]
fn closed_pipe_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // More than a pipe holds.
    let many: Vec<String> = (0..20_000).map(|game| row("bear", &["Hm.", "Hm."], Some(game))).collect();
    fs::write(dir.join("games.jsonl"), many.join("\n")).unwrap();
    let mut child = show(dir, &["games.jsonl"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    drop(reader);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()));
    assert_eq!(first, "game 0, row 1: bear (3 turns at most)\n");
}
