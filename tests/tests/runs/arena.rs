//! The real `spag arena`: consistent outputs, resume after a kill, and errors before any game.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use spag_game::taboo::Outcome;
use spag_game::{JudgeKind, judge_episode, read_episodes};
use spag_tests::{Answer, Running, Server, copy_folder, json, program, root, run, wait_until};

const NAMES: [&str; 3] = ["base", "a, \"copy\"", "random"];

/// A folder with three players: the small base model, a copy of it, and random weights; and a list of words.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let base = root().join("data/tiny-llama");
    copy_folder(&base, folder.path().join("base"));
    copy_folder(&base, folder.path().join("copy"));
    let config = base.join("config.json");
    let mut init = program("spag");
    init.args(["init-model", "--output_dir", "random", "--config"]).arg(config);
    run(init.current_dir(folder.path()), 0);
    fs::write(folder.path().join("words.txt"), "bear\nfrog\ncamel\n").unwrap();
    folder
}

fn arena(dir: &Path, output: &str, flags: &[&str]) -> Command {
    let mut command = program("spag");
    command.current_dir(dir).args(["arena", "--words", "words.txt", "--output_dir", output]);
    command.args(["--taboo_max_turns", "2", "--max_new_tokens", "8"]).args(flags);
    command
}

/// All three players, 6 games per seating.
fn three(dir: &Path, output: &str, flags: &[&str]) -> Command {
    let mut command = arena(dir, output, &["--games", "6", "--seed", "5"]);
    command.arg("--players").args(NAMES.iter().zip(["base", "copy", "random"]).map(|(n, p)| format!("{n}={p}")));
    command.args(flags);
    command
}

/// The utterances of every game of a record, by its number.
fn said(path: &Path) -> BTreeMap<u64, Vec<String>> {
    let games = read_episodes(path).unwrap().into_iter();
    games.map(|e| (e.extra["game"].as_u64().unwrap(), e.history.into_iter().map(|u| u.content).collect())).collect()
}

/// Lines of all records.
fn games_played(output: &Path) -> usize {
    let Ok(files) = fs::read_dir(output) else { return 0 };
    let records = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
    records.map(|path| fs::read(path).unwrap().iter().filter(|byte| **byte == b'\n').count()).sum()
}

#[test]
fn outputs_agree_and_a_killed_arena_resumes() {
    let folder = workplace();
    let dir = folder.path();
    let (text, _) = run(&mut three(dir, "whole", &["--anchor", "base"]), 0);
    let whole = dir.join("whole");
    let table = json(whole.join("arena.json"));

    // JSON against the games.
    let pairings = table["pairings"].as_array().unwrap();
    assert_eq!(pairings.len(), 6);
    for pairing in pairings {
        let [attacker, defender] = ["attacker", "defender"].map(|key| pairing[key].as_str().unwrap());
        let games = read_episodes(whole.join(format!("{attacker}_vs_{defender}.jsonl"))).unwrap();
        let count = |outcome| {
            let found = games.iter().filter(|e| Outcome::from(judge_episode(JudgeKind::Paper, e).unwrap()) == outcome);
            found.count() as u64
        };
        let broken = count(Outcome::AttackerBreaksRules);
        for (seat, wins) in
            [("as_attacker", count(Outcome::AttackerWins)), ("as_defender", count(Outcome::DefenderWins) + broken)]
        {
            assert_eq!(pairing[seat]["win"]["count"], wins, "{pairing}");
            assert_eq!(pairing[seat]["win"]["total"], 6 - count(Outcome::Tie));
        }
        assert_eq!(
            (&pairing["as_attacker"]["games"], &pairing["as_attacker"]["broken_rules"]),
            (&6.into(), &broken.into())
        );
        let words: Vec<&str> = games.iter().map(|game| game.item.as_str()).collect();
        assert_eq!(["bear", "frog", "camel"].map(|word| words.iter().filter(|w| **w == word).count()), [2, 2, 2]);
    }
    // The copy plays the same games as its original, since all pairings have the same words and seeds.
    let [base, copy, random] = NAMES;
    for (one, other) in [
        (format!("{base}_vs_{random}"), format!("{copy}_vs_{random}")),
        (format!("{random}_vs_{base}"), format!("{random}_vs_{copy}")),
        (format!("{base}_vs_{copy}"), format!("{copy}_vs_{base}")),
    ] {
        let record = |name: &str| said(&whole.join(format!("{name}.jsonl")));
        assert_eq!(record(&one), record(&other));
    }
    assert_ne!(said(&whole.join("base_vs_random.jsonl")), said(&whole.join("random_vs_base.jsonl")));
    let players = table["players"].as_array().unwrap();
    let player = |name: &str| players.iter().find(|player| player["name"] == name).unwrap();
    assert_eq!([&player(base)["elo"]["points"], &player(base)["elo"]["high"]], [1500.0, 1500.0]);
    assert!((player(copy)["elo"]["points"].as_f64().unwrap() - 1500.0).abs() < 1e-6);
    assert_eq!(player(base)["both"], player(copy)["both"]);

    // CSV and text against JSON.
    let mut reader = csv::Reader::from_path(whole.join("arena.csv")).unwrap();
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(|row| row.unwrap()).collect();
    assert_eq!(rows.len(), 3 * 3 + 6 * 2 + 1);
    let row = |player: &str, opponent: &str, seat: &str| {
        rows.iter().find(|r| r["player"] == player && r["opponent"] == opponent && r["seat"] == seat).unwrap()
    };
    let same = |row: &BTreeMap<String, String>, result: &Value| {
        let win = &result["win"];
        for (column, value) in [
            ("games", &result["games"]),
            ("ties", &result["ties"]),
            ("broken_rules", &result["broken_rules"]),
            ("failed", &result["failed"]),
            ("wins", &win["count"]),
            ("decided", &win["total"]),
            ("win_rate_low", &win["low"]),
            ("win_rate_high", &win["high"]),
        ] {
            assert_eq!(row[column].parse::<f64>().unwrap(), value.as_f64().unwrap(), "{column} {row:?} {result}");
        }
        assert_eq!(row["win_rate"].parse::<f64>().ok(), win["share"].as_f64());
    };
    let percent = |result: &Value| {
        let number = |key: &str| 100.0 * result["win"][key].as_f64().unwrap();
        match result["win"]["share"].is_null() {
            true => "–".to_owned(),
            false => format!("{:.1} [{:.1}, {:.1}]", number("share"), number("low"), number("high")),
        }
    };
    for player in players {
        let name = player["name"].as_str().unwrap();
        let seats = [("both", "both"), ("as_attacker", "attacker"), ("as_defender", "defender")];
        seats.iter().for_each(|(key, seat)| same(row(name, "", seat), &player[key]));
        let elo = ["points", "low", "high"].map(|key| player["elo"][key].as_f64().unwrap());
        let csv = ["elo", "elo_low", "elo_high"].map(|column| row(name, "", "both")[column].parse::<f64>().unwrap());
        assert_eq!(elo, csv);
        let line = text.lines().find(|line| line.starts_with(&format!("  {name}  "))).unwrap();
        let mut parts = vec![format!("{:.0} [{:.0}, {:.0}]", elo[0], elo[1], elo[2])];
        parts.extend(seats.map(|(key, _)| percent(&player[key])));
        let mut rest = line;
        for part in parts {
            rest = rest.split_once(&part).unwrap_or_else(|| panic!("{part} in {line}")).1;
        }
    }
    for pairing in pairings {
        let [attacker, defender] = ["attacker", "defender"].map(|key| pairing[key].as_str().unwrap());
        same(row(attacker, defender, "attacker"), &pairing["as_attacker"]);
        same(row(defender, attacker, "defender"), &pairing["as_defender"]);
        let line = text.lines().find(|line| line.contains(&format!("  {attacker} – {defender}  "))).unwrap();
        assert!(line.contains(&percent(&pairing["as_attacker"])) && line.contains(&percent(&pairing["as_defender"])));
    }
    same(row("", "", "attacker"), &table["attackers"]);
    assert_eq!(row("", "", "attacker")["elo"].parse::<f64>().ok(), table["attacker_edge"]["points"].as_f64());

    // Killed twice, with other batch sizes, and with a torn line.
    let broken = dir.join("broken");
    let slow = ["--anchor", "base", "--per_device_eval_batch_size", "2"];
    let mut kept = 0;
    for games in [3, 14] {
        let mut child = Running::start_quietly(&mut three(dir, "broken", &slow));
        wait_until("games are recorded", Duration::from_secs(300), || {
            games_played(&broken) >= games || child.has_exited()
        });
        assert_eq!(child.kill_after(Duration::ZERO), None, "it was killed while playing");
        assert!(games_played(&broken) >= kept.max(games) && !broken.join("arena.json").exists());
        kept = games_played(&broken);
    }
    assert!(kept < 36, "some games are missing");
    let first = broken.join("base_vs_a, \"copy\".jsonl");
    let before = fs::read_to_string(&first).unwrap();
    fs::write(&first, &before[..before.len() - 20]).unwrap();
    let (again, err) = run(&mut three(dir, "broken", &slow), 0);
    assert!(err.contains(&format!("note: {} of 36 games are in broken already", kept - 1)), "{err}");
    for file in ["arena.json", "arena.csv"] {
        assert_eq!(fs::read_to_string(whole.join(file)).unwrap(), fs::read_to_string(broken.join(file)).unwrap());
    }
    assert_eq!(text.replace("whole", "broken"), again);

    // A finished arena prints the results again; other settings are refused.
    assert_eq!(run(&mut three(dir, "broken", &slow), 0).0, again);
    let (_, err) = run(&mut three(dir, "broken", &["--temperature", "0.7"]), 2);
    assert!(err.contains("then temperature=1.2, now temperature=0.7"), "{err}");
}

#[test]
fn failed_games_do_not_count_and_players_may_play_themselves() {
    let folder = workplace();
    let dir = folder.path();
    let server = Server::start(|_| Answer::new(400, "{}"));
    let gone = format!("gone=openai:{}#gone", server.base_url());
    let flags = ["--games", "2", "--with_self", "--players", "base=base", &gone];
    let (text, err) = run(&mut arena(dir, "out", &flags), 0);
    assert!(err.contains("6 games failed") && err.contains("requests to endpoints"), "{err}");
    let table = json(dir.join("out/arena.json"));
    let of = |attacker: &str, defender: &str| {
        let mut pairings = table["pairings"].as_array().unwrap().iter();
        pairings.find(|p| p["attacker"] == attacker && p["defender"] == defender).unwrap()["as_attacker"].clone()
    };
    assert_eq!((&of("base", "base")["games"], &of("base", "base")["failed"]), (&2.into(), &0.into()));
    for (attacker, defender) in [("base", "gone"), ("gone", "base"), ("gone", "gone")] {
        let found = of(attacker, defender);
        assert_eq!(found["games"].as_u64().unwrap() + found["failed"].as_u64().unwrap(), 2, "{found}");
    }
    assert_eq!((&of("gone", "base")["failed"], &of("gone", "gone")["failed"]), (&2.into(), &2.into()));
    assert!(dir.join("out/gone_vs_base_failed.jsonl").is_file());
    assert!(text.lines().any(|line| line.starts_with("  gone – gone  ") && line.contains("–  ")), "{text}");
}

#[test]
fn invalid_commands_are_refused_before_any_game() {
    let folder = workplace();
    let dir = folder.path();
    fs::write(dir.join("empty.txt"), "").unwrap();
    fs::create_dir(dir.join("hollow")).unwrap();
    for (flags, words) in [
        (&["--players", "a=base"][..], &["1 player", "at least two"][..]),
        (&["--players", "a=base", "b=copy", "A=random"], &["\"a\" and \"A\"", "same name"]),
        (&["--players", "a=base", "b=missing"], &["b=missing", "no such checkpoint folder"]),
        (&["--players", "a=base", "b=hollow"], &["b=hollow", "config.json"]),
        (&["--players", "a=base", "copy"], &["\"copy\"", "NAME=PLAYER"]),
        (&["--players", "a=base", "x/y=z/copy"], &["x/y=z/copy", "looks like a path"]),
        (&["--players", "a=base", "b=openai:http://h/v1"], &["model's name is missing"]),
        (&["--players", "b=base", "b_failed=copy"], &["b_vs_b_failed.jsonl"]),
        (&["--players", "a=base", "b=copy", "--anchor", "c"], &["\"c\"", "a, b"]),
        (&["--players", "a=base", "b=copy", "--words", "empty.txt"], &["empty.txt", "no words"]),
        (&["--players", "a=base", "b=copy", "--words", "absent.txt"], &["absent.txt"]),
        (&["--players", "a=base", "b=copy", "--games", "0"], &["--games", "at least 1"]),
        (&[], &["--players"]),
    ] {
        let mut command = program("spag");
        command.current_dir(dir).args(["arena", "--output_dir", "out", "--with_self"]).args(flags);
        if !flags.contains(&"--words") {
            command.args(["--words", "words.txt"]);
        }
        let (out, err) = run(&mut command, 2);
        assert!(out.is_empty() && err.contains("error:"), "{flags:?}: {out} {err}");
        for word in words {
            assert!(err.contains(word), "{flags:?} should say {word:?}: {err}");
        }
        assert!(!dir.join("out").exists(), "{flags:?}");
    }
}

#[test]
fn several_games_have_a_folder_and_a_table_each() {
    let folder = workplace();
    let dir = folder.path();
    let players = ["--players", "base=base", "random=random", "--games", "4", "--max_new_tokens", "8"];
    let spag = |flags: &[&str]| {
        let mut command = program("spag");
        command.current_dir(dir).arg("arena").args(flags).args(players);
        command
    };
    let (text, _) = run(&mut spag(&["--game", "kuhn-poker,nim", "--output_dir", "out"]), 0);
    for name in ["kuhn-poker", "nim"] {
        assert!(text.contains(&format!("── {name} ──")), "{text}");
        let out = dir.join("out").join(name);
        let table = json(out.join("arena.json"));
        assert_eq!((&table["settings"]["game"], table["players"].as_array().unwrap().len()), (&name.into(), 2));
        let games = read_episodes(out.join("base_vs_random.jsonl")).unwrap();
        assert!(games.len() == 4 && games.iter().all(|game| game.extra["game_name"] == name));
        // What was refused is a statistic of each seat.
        let refused = games.iter().flat_map(|game| &game.history).filter(|said| said.extra.contains_key("refusal"));
        let first = refused.filter(|said| said.seat.index() == 0).count();
        let pairings = table["pairings"].as_array().unwrap();
        let pairing = pairings.iter().find(|pairing| pairing["player 0"] == "base").unwrap();
        assert_eq!(pairing["as_player 0"]["refusals"]["refused"]["count"], first, "{pairing}");
        assert!(out.join("arena.csv").exists() && text.contains("Refused utterances"));
    }
    assert!(!dir.join("out/arena.json").exists());
    // The games of a run's configuration are the same ones, and found finished.
    let config = "base_model = \"base\"\nself_play.games = 4\n[imitation]\nsource = \"random\"\ngames = 4\n\
                  [[games]]\ngame = \"kuhn-poker\"\n[[games]]\ngame = \"nim\"\n";
    fs::write(dir.join("run.toml"), config).unwrap();
    let (again, notes) = run(&mut spag(&["--config", "run.toml", "--output_dir", "out"]), 0);
    assert_eq!(again, text);
    assert!(notes.contains("16 of 16 games are in out already"), "{notes}");
    for (flags, said) in [
        (vec!["--game", "nim,nim"], "nim is named twice"),
        (vec!["--game", "nim,kuhn-poker", "--game_options", "rounds=1"], "which of several games"),
        (vec!["--game", "nim,kuhnpoker"], "kuhn-poker"),
        (vec!["--game", "nim", "--config", "run.toml"], "cannot be used with"),
    ] {
        let (_, error) = run(&mut spag(&flags), 2);
        assert!(error.contains(said), "{flags:?}: {error}");
    }
}
