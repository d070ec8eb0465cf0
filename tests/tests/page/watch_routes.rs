//! The routes of `spag watch` without a browser.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use spag_io::write_json_atomically;
use spag_run::{RankState, RankStatus};
use spag_tests::{Serve, program, root, run, send_signal, wait_until};
use tempfile::TempDir;

use crate::browser_documents::hostile_document;

fn write(path: PathBuf, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A line of a file of games.
pub(crate) fn game(number: usize, word: &str, said: &[&str]) -> String {
    let said =
        said.iter().enumerate().map(|(at, text)| json!({"role": spag_game::taboo::seat_at(at), "content": text}));
    let said: Vec<Value> = said.collect();
    json!({"history": said, "target_word": word, "max_turns": 5, "game": number, "players": "im"}).to_string() + "\n"
}

fn metrics(steps: usize) -> String {
    let line = |step: usize| {
        let loss = 2.0 / step as f64;
        json!({"step": step, "epoch": 0.1, "loss": loss, "kl": 0.01 * step as f64, "importance_ratio_mean": 1.0,
               "clipped_fraction": 0.02, "tokens_per_second": 1234.5, "peak_memory_gib": 0.25})
        .to_string()
            + "\n"
    };
    (1..=steps).map(line).collect()
}

/// Updates whose games are all ties.
pub(crate) fn updates_of_ties() -> String {
    (1..=3).map(|step| json!({"step": step, "update": step, "loss": 0.5, "ties": 1}).to_string() + "\n").collect()
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// A status as a rank of a run writes it.
pub(crate) fn status(state: RankState, stage: &str, part: &str) -> RankStatus {
    RankStatus {
        world_size: 1,
        pid: u32::MAX,
        host: "elsewhere".into(),
        state,
        started: now() - 100.0,
        updated: now(),
        progressed: now() - 1.0,
        stage: stage.into(),
        part: part.into(),
        part_started: now() - 10.0,
        done: 50,
        total: 100,
        note: "attacker 40%, defender 50%".into(),
        resident_bytes: Some(3 << 29),
        peak_bytes: Some(1 << 31),
        ..RankStatus::default()
    }
}

pub(crate) fn write_status(dir: &Path, status: &RankStatus) {
    write_json_atomically(RankStatus::path(dir, status.rank), status).unwrap();
}

/// A folder like that of a run of one epoch which plays the games of its stage spag-1.
pub(crate) fn run_in_progress() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    write(dir.join("config.resolved.toml"), "epochs = 2\njudge = \"paper\"\n[benchmarks]\ntasks = \"tiny\"\n");
    let stages = ["base", "im", "spag-1", "spag-2", "eval", "benchmarks"];
    let stages: Vec<Value> = stages.iter().map(|stage| json!({"name": stage, "folder": stage, "parts": []})).collect();
    write(dir.join("stages.json"), json!(stages).to_string());
    write(
        dir.join("base/done.json"),
        r#"{"stage": "base", "seeds": {}, "counts": {}, "seconds": {}, "resumed": false}"#,
    );
    let done = json!({"stage": "im", "seeds": {}, "counts": {"samples": 90, "steps": 30},
                      "seconds": {"play": 2.5, "train": 7.5}, "resumed": false});
    write(dir.join("im/done.json"), done.to_string());
    let games: String =
        (0..30).map(|number| game(number, "tiger", &["Stripes.", "I know the word! It is tiger!"])).collect();
    write(dir.join("im/episodes.jsonl"), games);
    write(dir.join("im/metrics.jsonl"), metrics(30));
    let games: String =
        (0..3).map(|number| game(number, "zebra", &["Stripes.", "I know the word! It is tiger!"])).collect();
    write(dir.join("spag-1/episodes.jsonl"), games + r#"{"history":[{"role":"atta"#);
    write_status(dir, &status(RankState::Running, "spag-1", "games"));
    folder
}

/// As [`run_in_progress`], finished.
pub(crate) fn finished_run() -> TempDir {
    let folder = run_in_progress();
    let dir = folder.path();
    let games: String =
        (0..8).map(|number| game(number, "zebra", &["Stripes.", "I know the word! It is tiger!"])).collect();
    for stage in ["spag-1", "spag-2"] {
        write(dir.join(stage).join("episodes.jsonl"), &games);
        write(dir.join(stage).join("metrics.jsonl"), metrics(700));
        let done = json!({"stage": stage, "counts": {"games": 8}, "seconds": {"play": 60, "train": 4000}});
        write(dir.join(stage).join("done.json"), done.to_string());
    }
    write(dir.join("eval/im-vs-spag-1.jsonl"), &games);
    write(dir.join("eval/done.json"), r#"{"seconds": {"play": 3}}"#);
    write(dir.join("report.html"), hostile_document().html());
    write_status(dir, &status(RankState::Finished, "benchmarks", ""));
    folder
}

/// Every file and folder below a folder with what a reader must not change.
fn everything(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let modified = entry.metadata().unwrap().modified().unwrap();
            let bytes = if path.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, (bytes, modified));
        }
    }
    found
}

fn states(live: &Value) -> Vec<(String, String)> {
    let stages = live["stages"].as_array().unwrap().iter();
    stages.map(|stage| (stage["name"].as_str().unwrap().into(), stage["state"].as_str().unwrap().into())).collect()
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

/// Asks until the answer meets a condition: files are read at most every 300 ms, however often one asks.
fn live_when(server: &Serve, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut answer = Value::Null;
    wait_until(path, Duration::from_secs(300), || {
        answer = server.get(path).ok();
        condition(&answer)
    });
    answer
}

#[test]
fn run_in_progress_has_stages_games_and_curves() {
    let folder = run_in_progress();
    let server = Serve::watch(folder.path());
    let live = server.get("/page/live").ok();
    assert_eq!(
        (&live["state"], &live["report"], &live["is_behind"]),
        (&json!("running"), &json!(false), &json!(false))
    );
    let want = [
        ("base", "done"),
        ("im", "done"),
        ("spag-1", "running"),
        ("spag-2", "waiting"),
        ("eval", "waiting"),
        ("benchmarks", "waiting"),
    ];
    assert_eq!(states(&live), named(&want));
    assert_eq!((&live["stages"][1]["seconds"], &live["stages"][1]["counts"]["steps"]), (&json!(10.0), &json!(30)));
    let rank = &live["ranks"][0];
    let left = rank["seconds_left"].as_f64().unwrap();
    assert!((5.0..20.0).contains(&left), "{rank}");
    assert_eq!((&rank["done"], &rank["peak_bytes"], &rank["error"]), (&json!(50), &json!(1u64 << 31), &Value::Null));
    let sets = live["sets"].as_array().unwrap();
    let counts: Vec<_> =
        sets.iter().map(|set| (set["file"].as_str().unwrap(), set["games"].as_u64().unwrap())).collect();
    assert_eq!(counts, [("im/episodes.jsonl", 30), ("spag-1/episodes.jsonl", 3)]);
    assert_eq!((&sets[0]["defender"], &sets[1]["attacker"]), (&json!(30), &json!(3)));
    // The newest is of the file that changed last, and its deciding words are marked.
    let newest = &live["games"][0];
    assert_eq!(
        (&newest["set"], &newest["game"], &newest["target_word"]),
        (&json!("spag-1/episodes.jsonl"), &json!(2), &json!("zebra"))
    );
    assert_eq!(newest["verdict"]["pieces"][0], json!({"text": "I know the word! It is tiger", "marked": true}));

    let curves = server.get("/page/live/curves?stage=im").ok();
    assert_eq!(curves["curves"]["loss"].as_array().unwrap().len(), 30);
    assert_eq!(curves["curves"]["loss"][3], json!([4.0, 0.5]));
    assert_eq!(curves["version"], live["stages"][1]["metrics"]);

    // The half-written game is completed, and only it is new.
    let path = folder.path().join("spag-1/episodes.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let whole = text.lines().take(3).map(|line| format!("{line}\n")).collect::<String>();
    let more = game(3, "boot", &["Stripes.", "Is it a boot?"]);
    let half = r#"{"history":[{"role":"atta"#;
    assert_eq!(text, whole + half);
    assert!(more.starts_with(half));
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, &more.as_bytes()[half.len()..]).unwrap();
    let asked = format!("/page/live?epoch={}&from={}", live["epoch"], live["next_game"]);
    let later = live_when(&server, &asked, |live| live["sets"][1]["games"] == 4);
    let words: Vec<&str> =
        later["games"].as_array().unwrap().iter().map(|game| game["target_word"].as_str().unwrap()).collect();
    assert_eq!(words, ["boot"]);
    assert_eq!(later["games"][0]["verdict"]["ending"], "said_unknowingly");

    // What the updates of an on-policy run warn of.
    assert_eq!(live["warnings"], json!([]));
    write(folder.path().join("spag-1/metrics.jsonl"), updates_of_ties());
    let warned = live_when(&server, "/page/live", |live| live["warnings"] != json!([]));
    assert_eq!(
        warned["warnings"],
        json!(["100% of the games of the last update are ties; win rates are of the others"])
    );
}

#[test]
fn finished_run_is_shown_and_left_as_it_was() {
    let folder = finished_run();
    let before = everything(folder.path());
    let server = Serve::watch(folder.path());
    let live = server.get("/page/live").ok();
    assert_eq!((&live["state"], &live["report"]), (&json!("finished"), &json!(true)));
    assert!(states(&live).iter().all(|(_, state)| state == "done"), "{live}");
    for stage in live["stages"].as_array().unwrap() {
        server.get(&format!("/page/live/curves?stage={}", stage["folder"].as_str().unwrap())).ok();
    }
    let run = server.get("/page/run").ok();
    assert_eq!(run["files"].as_array().unwrap().len(), 4);
    server.get("/page/run/games?file=spag-1/episodes.jsonl").ok();
    assert!(server.get("/page/run/report").ok()["title"].is_string());
    let Serve { mut process, .. } = server;
    send_signal(process.id(), "TERM");
    assert!(process.wait_for(Duration::from_secs(300)).unwrap().success());
    assert_eq!(everything(folder.path()), before);
}

#[test]
fn interrupted_and_failed_runs_say_so() {
    let folder = run_in_progress();
    let dir = folder.path();
    let gone = RankStatus { updated: now() - 1000.0, ..status(RankState::Running, "spag-1", "games") };
    write_status(dir, &gone);
    let server = Serve::watch(dir);
    let live = server.get("/page/live").ok();
    assert_eq!((&live["state"], &live["ranks"][0]["state"]), (&json!("interrupted"), &json!("gone")));
    assert_eq!(states(&live)[2..4], named(&[("spag-1", "interrupted"), ("spag-2", "waiting")]));

    // Resumed on two ranks, of which the second fails.
    let second =
        RankStatus { rank: 1, error: Some("disk: <b>full</b>".into()), ..status(RankState::Failed, "spag-1", "") };
    write_status(dir, &second);
    write_status(dir, &RankStatus { world_size: 2, ..status(RankState::Running, "spag-1", "games") });
    let live = live_when(&server, "/page/live", |live| live["state"] == "failed");
    assert_eq!(
        (&live["ranks"][1]["error"], &states(&live)[2].1),
        (&json!("disk: <b>full</b>"), &"interrupted".to_owned())
    );

    // A run of a version without status is neither.
    fs::remove_dir_all(dir.join("status")).unwrap();
    let live = live_when(&server, "/page/live", |live| live["ranks"] == json!([]));
    assert_eq!(live["state"], "unknown");
}

#[test]
fn folder_that_is_deleted_is_a_message_and_a_new_run_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("run");
    fs::rename(run_in_progress().keep(), &dir).unwrap();
    let server = Serve::watch(&dir);
    let first = server.get("/page/live").ok();
    assert_eq!((&first["sets"][0]["games"], &first["problems"]), (&json!(30), &json!([])));
    fs::remove_dir_all(&dir).unwrap();
    let gone = live_when(&server, "/page/live", |live| live["problems"] != json!([]));
    let problem = gone["problems"][0].as_str().unwrap();
    assert!(problem.contains("deleted or moved") && problem.contains("No such file"), "{problem}");
    assert!(!dir.exists(), "nothing is made again");
    write(dir.join("config.resolved.toml"), "epochs = 1\n");
    write(dir.join("im/episodes.jsonl"), game(0, "boot", &["a boot"]));
    let again = live_when(&server, "/page/live", |live| live["problems"] == json!([]));
    assert_ne!(again["epoch"], first["epoch"]);
    assert_eq!((&again["sets"][0]["games"], again["sets"].as_array().unwrap().len()), (&json!(1), 1));
    assert_eq!(again["games"].as_array().unwrap().len(), 1);
}

#[test]
fn files_with_anything_in_them_are_survived() {
    let folder = run_in_progress();
    let dir = folder.path();
    let huge = "x".repeat(3 << 20);
    write(
        dir.join("im/metrics.jsonl"),
        [b"\xff\xfe\n[]\n{\"step\": 1e400}\n{\"step\": 1, \"loss\": 1}\n{".as_slice(), huge.as_bytes()].concat(),
    );
    let games = [
        &game(0, "", &[]),
        "nonsense\n",
        &huge,
        "\n",
        &game(1, "tiger", &["<script>", &huge[..1 << 19]]),
        "\0\0\n",
        "{\"history\"",
    ];
    write(dir.join("spag-1/episodes.jsonl"), games.concat());
    write(dir.join("spag-1/done.json"), "[]");
    write(dir.join("status/rank0.json"), &huge);
    write(dir.join("stages.json"), r#"[{"name": "<script>", "folder": "im"}, {"name": "out", "folder": "../.."}]"#);
    fs::create_dir_all(dir.join("eval/a-vs-b.jsonl")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.join("base/episodes.jsonl")).unwrap();
    let server = Serve::watch(dir);
    let live = live_when(&server, "/page/live", |live| live["is_behind"] == false);
    assert_eq!(states(&live), named(&[("<script>", "done")]));
    let set = live["sets"].as_array().unwrap().iter().find(|set| set["file"] == "spag-1/episodes.jsonl").unwrap();
    assert_eq!((&set["games"], &set["unreadable"]), (&json!(1), &json!(4)), "{set}");
    let shown = live["games"][0]["history"][1]["content"].as_str().unwrap();
    assert!(shown.len() < 5000 && shown.contains("bytes left out"), "{}", shown.len());
    let curves = server.get("/page/live/curves?stage=im").ok();
    assert_eq!((&curves["curves"]["loss"], &curves["unreadable"]), (&json!([[1.0, 1.0]]), &json!(4)));
    for (query, status) in [
        ("live/curves?stage=../..", 400),
        ("live/curves?stage=%3Cb%3E", 400),
        ("live/curves", 400),
        ("live?from=-1", 400),
        ("live?unknown=1", 400),
        ("live?epoch=99&from=18446744073709551615", 200),
        ("run/games?file=../secret.jsonl", 400),
    ] {
        let reply = server.get(&format!("/page/{query}"));
        assert!(reply.status == status && !reply.text.contains('\n'), "{query}: {reply:?}");
    }
}

#[test]
fn server_has_no_routes_of_models_and_only_the_files_of_its_page() {
    let folder = finished_run();
    let server = Serve::watch(folder.path());
    for path in ["/v1/models", "/page/settings", "/page/word", "/page/main.js", "/nothing"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert_eq!(server.complete(&json!({"prompt": "a"})).status, 404);
    assert_eq!(server.post("/page/live", &json!({})).status, 405);
    assert_eq!(server.get("/health").ok(), json!({"status": "ok"}));
    let page = server.get("/");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    for link in page.text.split(['"', '\'']).filter(|text| text.starts_with("page/")) {
        assert_eq!(server.get(&format!("/{link}")).status, 200, "{link}");
    }
    // Addresses are relative, so that the page can be forwarded below any path.
    assert!(!page.text.contains("=\"/"), "{}", page.text);
    let other = server.get_with("/page/live", &[("origin", "https://example.org")]);
    assert_eq!((other.status, other.header("access-control-allow-origin")), (403, None));
}

#[test]
fn keys_are_asked_for_if_there_are_some() {
    let folder = finished_run();
    let keys = folder.path().join("../keys-of-a-run");
    fs::write(&keys, "secret\n").unwrap();
    let mut command = program("spag");
    command.arg("watch").arg(folder.path()).args(["--port", "0", "--api_key_file"]).arg(&keys);
    let server = Serve::start_command(&mut command);
    fs::remove_file(&keys).unwrap();
    assert_eq!(server.get("/").status, 200);
    for path in ["/page/live", "/page/live/curves?stage=im", "/page/run"] {
        assert_eq!(server.get(path).status, 401, "{path}");
        assert_eq!(server.get_with(path, &[("authorization", "Bearer secret")]).status, 200, "{path}");
    }
}

#[test]
fn wrong_folders_and_ports_are_misuse() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let model = root().join("data/tiny-llama");
    for (dir, said) in [
        (folder.path().join("none"), "name the run_dir of a run"),
        (folder.path().join("file"), "name the run_dir of a run"),
        (model, "it has no config.resolved.toml"),
    ] {
        let (_, error) = run(program("spag").arg("watch").arg(&dir).args(["--port", "0"]), 2);
        assert!(error.contains(said) && error.lines().count() == 1, "{error}");
    }
    let run_dir = finished_run();
    let server = Serve::watch(run_dir.path());
    let port = server.address().port().to_string();
    let (_, error) = run(program("spag").arg("watch").arg(run_dir.path()).args(["--port", &port]), 2);
    assert!(error.contains("choose another host or port"), "{error}");
    // A run does not begin if its page cannot be served.
    let unused = folder.path().join("unused");
    let set = format!("run_dir={}", unused.display());
    let mut command = program("spag");
    let (_, error) = run(command.args(["run", "configs/tiny.toml", "--set", &set, &format!("--watch={port}")]), 2);
    assert!(error.contains("choose another host or port") && !unused.exists(), "{error}");
}

/// The secret, and everything in a run folder that could lead to it.
fn linked_run() -> (tempfile::TempDir, std::path::PathBuf) {
    use std::os::unix::fs::symlink;
    let outer = tempfile::tempdir().unwrap();
    let (run, secret) = (outer.path().join("run"), outer.path().join("secret"));
    let row = json!({
        "history": [{"role": "attacker", "content": "SECRET"}], "target_word": "SECRET", "max_turns": 5, "game": 1,
    });
    let pair = "eval/im-vs-im.jsonl";
    for file in [
        "episodes.jsonl",
        "nim/episodes.jsonl",
        "held-out/im-vs-im.jsonl",
        "im-vs-im.jsonl",
        "metrics.jsonl",
        "report.html",
    ] {
        let path = secret.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{row}\n{{\"step\": 1, \"SECRET\": 2, \"loss\": 1}}\n")).unwrap();
    }
    let status = json!({"rank": 0, "world_size": 1, "stage": "SECRET", "host": "SECRET", "state": "running"});
    fs::write(secret.join("rank0.json"), status.to_string()).unwrap();
    fs::write(secret.join("done.json"), r#"{"counts": {"SECRET": 1}}"#).unwrap();
    fs::write(secret.join("stages.json"), r#"[{"name": "SECRET", "folder": "SECRET"}]"#).unwrap();
    fs::create_dir_all(run.join("im")).unwrap();
    fs::create_dir_all(run.join("eval")).unwrap();
    fs::create_dir_all(run.join("own")).unwrap();
    fs::write(run.join("own/episodes.jsonl"), row.to_string().replace("SECRET", "own") + "\n").unwrap();
    let words = outer.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&words).status().unwrap().success());
    let settings = format!("judge = \"paper\"\ngame = \"hangman\"\nepochs = 1\n[words]\nfile = {words:?}\n");
    fs::write(run.join("config.resolved.toml"), settings).unwrap();
    for (link, target) in [
        ("linked", ""),
        ("spag-1", ""),
        ("status", ""),
        ("im/episodes.jsonl", "episodes.jsonl"),
        ("im/nim", "nim"),
        ("im/metrics.jsonl", "metrics.jsonl"),
        ("im/done.json", "done.json"),
        (pair, "im-vs-im.jsonl"),
        ("eval/held-out", "held-out"),
        ("report.html", "report.html"),
        ("stages.json", "stages.json"),
    ] {
        symlink(secret.join(target), run.join(link)).unwrap();
    }
    symlink("own/episodes.jsonl", run.join("im/inner.jsonl")).unwrap();
    symlink(&run, outer.path().join("by-link")).unwrap();
    let root = outer.path().join("by-link");
    (outer, root)
}

#[test]
fn links_in_a_run_folder_lead_nowhere_and_pipes_are_not_waited_for() {
    let (_outer, run) = linked_run();
    let playing = Serve::start([model(), "--run".into(), run.display().to_string()]);
    for server in [&Serve::watch(&run), &playing] {
        let mut answers = vec![server.get("/page/run").ok()];
        assert_eq!(answers[0]["files"].as_array().unwrap().len(), 1, "{}", answers[0]);
        assert_eq!(answers[0]["report"], false);
        answers.push(server.get("/page/run/games?file=own/episodes.jsonl").ok());
        assert_eq!(answers[1]["total"], 1);
        for file in [
            "im/episodes.jsonl",
            "im/nim/episodes.jsonl",
            "eval/im-vs-im.jsonl",
            "linked/episodes.jsonl",
            "status/episodes.jsonl",
        ] {
            let refused = server.get(&format!("/page/run/games?file={file}"));
            assert_eq!(refused.status, 400, "{file} {refused:?}");
            answers.push(refused.json());
        }
        let report = server.get("/page/run/report");
        assert_eq!(report.status, 404);
        answers.push(report.json());
        for path in ["/page/live", "/page/live/curves?stage=im", "/page/live/curves?stage=spag-1"] {
            answers.push(server.get(path).json());
        }
        assert!(!json!(answers).to_string().contains("SECRET"), "{answers:?}");
    }
}

fn model() -> String {
    root().join("data/tiny-llama").display().to_string()
}
