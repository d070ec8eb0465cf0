//! The routes of a run's games without a browser.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spag_tests::{Serve, program, root, run};
use tempfile::TempDir;

use crate::browser_documents::hostile_document;

/// A row of a file of games.
fn row(word: &str, said: &[&str], game: usize) -> Value {
    let said =
        said.iter().enumerate().map(|(at, text)| json!({"role": spag_game::taboo::seat_at(at), "content": text}));
    json!({
        "history": said.collect::<Vec<_>>(), "target_word": word, "max_turns": 5,
        "game": game, "seed": u64::MAX - game as u64, "players": "im-vs-spag-1",
    })
}

fn write(path: &Path, rows: &[String]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, rows.join("\n") + "\n").unwrap();
}

/// A folder like those of `spag run`: 100 games of five endings and two words, a file of hostile games, a report.
pub(crate) fn run_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let games = (0..100).map(|game| {
        let word = if game % 2 == 0 { "tiger" } else { "zebra" };
        let other = if game % 2 == 0 { "zebra" } else { "tiger" };
        let right = format!("Well. I know the word! It is {word}!");
        let wrong = format!("I know the word! It is {other}!");
        let said = format!("A {word}, maybe.");
        let said: &[&str] = match game / 2 % 5 {
            0 => &["It has stripes.", &right],
            1 => &["It has stripes.", &wrong, "Haha."],
            2 => &["It has stripes.", &said],
            3 => &[&said],
            _ => &["It has stripes.", "Hm."],
        };
        row(word, said, game).to_string()
    });
    write(&root.join("eval/im-vs-spag-1.jsonl"), &games.collect::<Vec<_>>());
    let long = "x".repeat(10_000);
    let texts = [
        "<script>window.pwned = 1</script>",
        "<img src=x onerror='window.pwned = 1'>",
        "\u{202e}gnp.exe",
        "\u{0}\u{1b}[2J",
        &long,
        "</td></table><b>",
        "javascript:alert(1)",
    ];
    let mut hostile: Vec<String> = texts
        .iter()
        .map(|text| {
            let mut row = row(text, &[text, text], 1);
            row["players"] = (*text).into();
            row["target_word"] = format!("w{text}").into();
            row.to_string()
        })
        .collect();
    let mut failed = row("tiger", &["It has stripes."], 3);
    failed["reason"] = texts[0].into();
    hostile.push(failed.to_string());
    hostile.extend(
        ["not a game <b>", "{\"history\": 7}", "[]", &format!("\"{}\"", "x".repeat(2 << 20))].map(str::to_owned),
    );
    hostile.push(row("", &[], 4).to_string());
    write(&root.join("hostile/episodes.jsonl"), &hostile);
    // No script of the file runs.
    let report = format!("<script>parent.window.pwned = 1</script>{}", hostile_document().html());
    fs::write(root.join("report.html"), report).unwrap();
    folder
}

fn serve(folder: &Path) -> Serve {
    Serve::start([root().join("data/tiny-llama").as_os_str(), "--run".as_ref(), folder.as_os_str()])
}

#[test]
fn games_are_listed_filtered_and_paged() {
    let folder = run_folder();
    let server = serve(folder.path());
    let run = server.get("/page/run").ok();
    let files: Vec<&str> = run["files"].as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["hostile/episodes.jsonl", "eval/im-vs-spag-1.jsonl"]);
    assert_eq!((&run["files"][1]["title"], &run["report"]), (&json!("IM attacks, SPAG-1 defends"), &json!(true)));

    let list = |query: &str| server.get(&format!("/page/run/games?file=eval/im-vs-spag-1.jsonl{query}")).ok();
    let all = list("");
    assert_eq!((&all["total"], &all["matching"], &all["pages"]), (&json!(100), &json!(100), &json!(4)));
    assert!(all["endings"].as_array().unwrap().iter().all(|ending| ending["games"] == 20), "{all}");
    let first = &all["games"][0];
    assert_eq!(
        (&first["row"], &first["ending"], &first["winner"], &first["length"]),
        (&json!(1), &json!("right_guess"), &json!("defender"), &json!(2))
    );
    for (query, matching) in [
        ("&ending=wrong_guess", 20),
        ("&winner=defender", 40),
        ("&winner=none", 20),
        ("&winner=attacker&ending=tie", 0),
        ("&word=TIG", 50),
        ("&word=tiger&winner=attacker&ending=said_unknowingly", 10),
        ("&ending=failed", 0),
        ("&ending=&winner=&word=", 100),
    ] {
        assert_eq!(list(query)["matching"], matching, "{query}");
    }
    let pages: Vec<u64> = (1..=5)
        .flat_map(|page| {
            let games = list(&format!("&page={page}"))["games"].clone();
            games.as_array().unwrap().iter().map(|game| game["row"].as_u64().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(pages[..100], (1..=100).collect::<Vec<_>>());
    assert_eq!(pages[100..], pages[75..100], "a page beyond the last is the last");

    let game = server.get("/page/run/game?file=eval/im-vs-spag-1.jsonl&row=3").ok();
    assert_eq!((&game["verdict"]["ending"], &game["verdict"]["length"]), (&json!("wrong_guess"), &json!(2)));
    assert_eq!(game["history"].as_array().unwrap().len(), 3);
    assert_eq!(game["verdict"]["pieces"][0], json!({"text": "I know the word! It is zebra", "marked": true}));

    assert_eq!(game["history"][0], json!({"role": "attacker", "content": "It has stripes."}));

    // A file that grows is read again.
    let path = folder.path().join("eval/im-vs-spag-1.jsonl");
    let more = fs::read_to_string(&path).unwrap() + row("boot", &["a"], 100).to_string().as_str();
    fs::write(&path, more).unwrap();
    assert_eq!((&list("")["total"], &list("&word=boot")["matching"]), (&json!(101), &json!(1)));
}

#[test]
fn reasoning_of_recorded_games_is_shown() {
    let folder = run_folder();
    let mut taboo = row("tiger", &["It has stripes.", ""], 0);
    taboo["history"][0]["reasoning"] = "My word is tiger.".into();
    taboo["history"][1]["reasoning"] = "Stripes".into();
    taboo["history"][1]["reasoning_end"] = "unfinished".into();
    write(&folder.path().join("eval/a-vs-b.jsonl"), &[taboo.to_string()]);
    let game = serve(folder.path()).get("/page/run/game?file=eval/a-vs-b.jsonl&row=1").ok();
    assert_eq!(game["history"], taboo["history"]);
}

#[test]
fn rows_that_are_no_games_are_counted_beside_the_others() {
    let folder = run_folder();
    let server = serve(folder.path());
    let list = server.get("/page/run/games?file=hostile/episodes.jsonl").ok();
    assert_eq!((&list["total"], &list["failed"], &list["unreadable"]), (&json!(8), &json!(1), &json!(5)));
    let rows: Vec<u64> =
        list["unreadable_rows"].as_array().unwrap().iter().map(|one| one["row"].as_u64().unwrap()).collect();
    assert_eq!(rows, [9, 10, 11, 12, 13]);
    assert_eq!(server.get("/page/run/games?file=hostile/episodes.jsonl&ending=failed").ok()["matching"], 1);
    for row in [1, 8] {
        let game = server.get(&format!("/page/run/game?file=hostile/episodes.jsonl&row={row}")).ok();
        assert_eq!(game["verdict"].is_null(), row == 8, "{game}");
    }
    for (query, status) in
        [("row=9", 404), ("row=0", 404), ("row=99999999999999999999", 400), ("row=-1", 400), ("row=x", 400), ("", 400)]
    {
        assert_eq!(
            server.get(&format!("/page/run/game?file=hostile/episodes.jsonl&{query}")).status,
            status,
            "{query}"
        );
    }
}

#[test]
fn only_files_of_the_list_can_be_read() {
    let folder = run_folder();
    fs::write(folder.path().join("secret.jsonl"), row("tiger", &["a"], 0).to_string()).unwrap();
    fs::create_dir(folder.path().join("linked")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.jsonl"), folder.path().join("linked/episodes.jsonl"))
        .unwrap();
    let server = serve(folder.path());
    let absolute = folder.path().join("eval/im-vs-spag-1.jsonl");
    for file in [
        "",
        "secret.jsonl",
        "../secret.jsonl",
        "eval/../secret.jsonl",
        "eval/..%2Fsecret.jsonl",
        "%2Fetc%2Fpasswd",
        "linked/episodes.jsonl",
        "eval",
        "eval/",
        "eval//im-vs-spag-1.jsonl",
        "./eval/im-vs-spag-1.jsonl",
        "eval/im-vs-spag-1.jsonl%00",
        absolute.to_str().unwrap(),
    ] {
        for route in ["games?", "game?row=1&"] {
            let reply = server.get(&format!("/page/run/{route}file={file}"));
            assert!(
                reply.status == 400 && reply.error().contains("file: this run has no games in"),
                "{file}: {reply:?}"
            );
        }
    }
    for query in ["file=a&file=b", "unknown=1", "page=-1", "page=x", "ending=%3Cb%3E", "winner=me"] {
        let reply = server.get(&format!("/page/run/games?{query}"));
        assert!(reply.status == 400 && !reply.error().contains('\n'), "{query}: {reply:?}");
    }
}

#[test]
fn report_is_data_and_no_page() {
    let folder = run_folder();
    let (server, file) = (serve(folder.path()), folder.path().join("report.html"));
    let report = server.get("/page/run/report");
    assert_eq!(report.header("content-type"), Some("application/json"));
    assert_eq!(report.ok()["sections"].as_array().unwrap().len(), hostile_document().sections.len());
    let refused = |reason: &str| {
        let reply = server.get("/page/run/report");
        assert!(reply.status == 404 && reply.error().contains(reason), "{reply:?}");
    };
    fs::write(&file, "<!doctype html><h1>A report without data</h1>").unwrap();
    refused("another version wrote it");
    fs::remove_file(&file).unwrap();
    refused("no report yet");
    fs::create_dir(&file).unwrap();
    refused("no report yet");
}

#[test]
fn folder_that_goes_away_is_an_error_of_its_requests_only() {
    let folder = run_folder();
    let server = serve(folder.path());
    fs::remove_dir_all(folder.path().join("eval")).unwrap();
    assert_eq!(server.get("/page/run/games?file=eval/im-vs-spag-1.jsonl").status, 400);
    fs::remove_dir_all(folder.path()).unwrap();
    let gone = server.get("/page/run");
    assert!(gone.status == 500 && gone.error().contains("The run folder cannot be read"), "{gone:?}");
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn large_file_is_read_once_and_in_bounded_memory() {
    let folder = run_folder();
    let path = folder.path().join("eval/a-vs-b.jsonl");
    let game = row("tiger", &[&"It has stripes. ".repeat(40), "I know the word! It is tiger!"], 0).to_string() + "\n";
    fs::write(&path, game.repeat(100_000)).unwrap();
    let server = serve(folder.path());
    let list = server.get("/page/run/games?file=eval/a-vs-b.jsonl&page=4000").ok();
    assert_eq!((&list["total"], &list["page"]), (&json!(100_000), &json!(4000)));
    assert_eq!(list["games"].as_array().unwrap().len(), 25);
}

#[test]
fn flags_of_the_page_are_checked_before_anything_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(folder.path().join("words"), "\n").unwrap();
    let model = root().join("data/tiny-llama");
    for (flags, said) in [
        (["--run", empty.to_str().unwrap()], "it has no games"),
        (["--run", "/nonexistent"], "/nonexistent"),
        (["--run", model.join("config.json").to_str().unwrap()], "config.json"),
        (["--words", folder.path().join("words").to_str().unwrap()], "the file holds no words"),
        (["--words", "/nonexistent"], "/nonexistent"),
        (["--prompts", model.join("config.json").to_str().unwrap()], "config.json"),
        (["--judge", "nobody"], "nobody"),
        (["--max_turns", "0"], "--max_turns"),
        (["--max_new_tokens", "0"], "--max_new_tokens"),
        (["--temperature", "nan"], "--temperature"),
        (["--top_p", "0"], "top_p"),
    ] {
        let (_, error) = run(program("spag").arg("serve").arg(&model).args(["--port", "0"]).args(flags), 2);
        assert!(error.contains(said), "{flags:?}: {error}");
    }
}
