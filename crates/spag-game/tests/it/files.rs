//! Files of episodes, word lists and appended lines, and their error messages.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use spag_game::{Episode, EpisodeReader, Taboo, open_game, read_episodes, read_games, read_words, taboo};
use spag_io::{AtomicFile, JsonlAppender, PromptFormat, write_json_atomically};
use tempfile::TempDir;

const GAME: &str = r#"{"history": [{"role": "attacker", "content": "Hi"}], "target_word": "tea", "max_turns": 5}"#;

fn file(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The error message for a file of episodes, without the folder.
fn error_message(bytes: impl AsRef<[u8]>) -> String {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "e.json", bytes);
    let message = read_games(&path, &Taboo::default()).unwrap_err().to_string();
    message.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn layout_is_detected_by_the_first_character() {
    let folder = TempDir::new().unwrap();
    let other = GAME.replace("Hi", "[{\\\"]},");
    for text in [
        format!("[{GAME},{other}]"),
        format!(" \n[\n  {GAME}  ,\n {other}\n]\n\n"),
        format!("\u{feff}[{GAME}, {other}]"),
        format!("{GAME}\n{other}"),
        format!("\u{feff}\n{GAME}\r\n\r\n{other}\r\n"),
    ] {
        let path = file(&folder, "episodes", &text);
        let episodes = read_episodes(&path).unwrap();
        let contents: Vec<&str> = episodes.iter().map(|e| e.history[0].content.as_str()).collect();
        assert_eq!(contents, ["Hi", "[{\"]},"], "{text}");
    }
    for empty in ["", "[]", " [ ] \n", "\n\n"] {
        assert!(read_episodes(file(&folder, "empty", empty)).unwrap().is_empty(), "{empty}");
    }
}

#[test]
fn unknown_keys_survive_a_round_trip_in_order() {
    let row = json!({
        "history": [{"role": "attacker", "content": "Hé", "z": 1, "a": {"deep": [null, 0.1234567890123456]}}],
        "target_word": "tea", "max_turns": 3,
        "zeta": "last", "alpha": [1, 2.5, 18446744073709551615u64], "id": null,
    });
    let episode: Episode = serde_json::from_value(row.clone()).unwrap();
    assert_eq!(serde_json::to_string(&episode).unwrap(), row.to_string());
    // The default of max_turns is the paper's.
    let short: Episode = serde_json::from_value(json!({"history": [], "target_word": "tea"})).unwrap();
    assert_eq!((short.max_turns, short.next_role()), (5, taboo::ATTACKER));
    let nulls = json!({"history": [], "target_word": "tea", "max_turns": null, "seed": null, "game_name": null});
    assert_eq!(serde_json::from_value::<Episode>(nulls).unwrap().max_turns, 5);
}

#[test]
fn error_names_file_row_and_cause() {
    for (text, message) in [
        (format!("[{GAME}, {{\"history\": []}}]"), "e.json: row 2: missing field `target_word` (column 15 of the row)"),
        (
            format!("{GAME}\n{}", GAME.replace("\"Hi\"", "7")),
            "e.json: row 2: history[0].content: invalid type: integer `7`, expected a string (column 46 of the row)",
        ),
        (
            GAME.replace("attacker", "Attacker"),
            "e.json: row 1: history[0].role: unknown variant `Attacker`, expected `attacker` or `defender` (column 32 of \
             the row)",
        ),
        (
            GAME.replace("attacker", "defender"),
            "e.json: row 1: utterance 1 is the defender's, but it was the attacker's turn",
        ),
        (GAME.replace("tea", " "), "e.json: row 1: target word \" \": it is empty"),
        (
            GAME.replace(": 5", ": -5"),
            "e.json: row 1: max_turns: invalid value: integer `-5`, expected usize (column 90 of the row)",
        ),
        (GAME.replace(": 5", ": NaN"), "e.json: row 1: NaN is no JSON; write a number or null (column 89 of the row)"),
        (
            GAME.replace(": 5", ": 5, \"loss\": -Infinity"),
            "e.json: row 1: -Infinity is no JSON; write a number or null (column 101 of the row)",
        ),
        (
            format!("[{GAME}, {}", &GAME[..50]),
            "e.json: row 2: EOF while parsing a list (column 50 of the row); is the file cut off?",
        ),
        (format!("[{GAME}"), "e.json: row 2: the list has no closing `]`; is the file cut off?"),
        (format!("[{GAME},"), "e.json: row 2: EOF while parsing a value (column 0 of the row); is the file cut off?"),
        (format!("[{GAME},]"), "e.json: row 2: expected value (column 1 of the row)"),
        (format!("[,{GAME}]"), "e.json: row 1: expected value (column 1 of the row)"),
        (format!("[{GAME} {GAME}]"), "e.json: row 1: `,` or `]` is missing after this element of the list"),
        (format!("[{GAME}] {GAME}"), "e.json: row 2: text follows the closing `]` of the list"),
        (
            "{\n\"history\": []}".to_owned(),
            "e.json: row 1: EOF while parsing an object (column 1 of the row); is the file cut off, or one object spread \
             over several lines?",
        ),
        ("hello".to_owned(), "e.json: row 1: expected value (column 1 of the row)"),
        (
            "[\n {\n  \"history\": [],\n  \"target_word\": 5\n }\n]".to_owned(),
            "e.json: row 1: target_word: invalid type: integer `5`, expected a string (line 3, column 18 of the row)",
        ),
    ] {
        assert_eq!(error_message(&text), message, "{text}");
    }
    assert!(error_message(b"{\"history\": [], \"target_word\": \"\xff\"}").starts_with("e.json: row 1: "));
    let deep = format!("{{\"x\": {}", "[".repeat(100_000));
    assert!(error_message(deep).starts_with("e.json: row 1: recursion limit exceeded"));
    let folder = TempDir::new().unwrap();
    assert!(read_episodes(folder.path().join("absent")).unwrap_err().to_string().contains("absent: "));
    assert!(read_episodes(folder.path()).unwrap_err().to_string().contains("a folder, not a file"));
}

#[test]
fn reader_yields_the_rows_before_an_error_and_ends() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "e.jsonl", format!("{GAME}\n\n{GAME}\n{{\n{GAME}\n"));
    let rows: Vec<_> = EpisodeReader::open(&path).unwrap().map(|row| row.map(|(row, _)| row).ok()).collect();
    assert_eq!(rows, [Some(1), Some(3), None]);
}

#[test]
fn resume_drops_a_torn_last_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("new/folder/e.jsonl");
    let game = |word: &str| Episode::new(word, 5);
    let (mut lines, before) = JsonlAppender::<Episode>::resume(&path).unwrap();
    assert!(before.is_empty());
    lines.append(&game("one")).unwrap();
    lines.append(&game("two\nlines")).unwrap();
    lines.sync().unwrap();
    drop(lines);
    let whole = std::fs::read(&path).unwrap();

    // Killed anywhere in the third line.
    let third = serde_json::to_vec(&game("three")).unwrap();
    for torn in 0..=third.len() {
        std::fs::write(&path, [&whole, &third[..torn]].concat()).unwrap();
        let (mut lines, before) = JsonlAppender::<Episode>::resume(&path).unwrap();
        assert_eq!(before, [game("one"), game("two\nlines")], "{torn}");
        lines.append(&game("again")).unwrap();
        let words: Vec<String> = read_episodes(&path).unwrap().into_iter().map(|e| e.item).collect();
        assert_eq!(words, ["one", "two\nlines", "again"]);
    }

    // A file of another kind stays unchanged.
    let other = file(&folder, "notes.txt", "my notes\nunfinished");
    assert!(JsonlAppender::<Episode>::resume(&other).unwrap_err().to_string().contains("notes.txt: row 1: "));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "my notes\nunfinished");
    assert!(JsonlAppender::<Episode>::create(&path).is_ok());
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[test]
fn atomic_file_appears_complete_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let names = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    let path = folder.path().join("a.json");
    let mut dropped = AtomicFile::create(&path).unwrap();
    dropped.write_all(b"half").unwrap();
    drop(dropped);
    assert_eq!(names(folder.path()), 0);

    write_json_atomically(&path, &[Episode::new("thé", 5)]).unwrap();
    assert_eq!(read_episodes(&path).unwrap(), [Episode::new("thé", 5)]);
    assert!(
        std::fs::read_to_string(&path)
            .unwrap()
            .starts_with("[\n  {\n    \"history\": [],\n    \"target_word\": \"thé\"")
    );

    let mut second = AtomicFile::create(&path).unwrap();
    second.write_all(b"half").unwrap();
    assert_eq!(read_episodes(&path).unwrap().len(), 1);
    drop(second);
    assert_eq!(read_episodes(&path).unwrap().len(), 1);
    assert_eq!(names(folder.path()), 1);

    assert!(AtomicFile::create(folder.path()).unwrap_err().to_string().contains("this is a folder"));
    assert!(write_json_atomically(path.join("below/a/file"), &[0]).is_err());
    #[cfg(unix)]
    {
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_json_atomically(&link, &[Episode::new("other", 5)]).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_file(), "the link is replaced, not its target");
        assert_eq!(read_episodes(&link).unwrap()[0].item, "other");
        assert_eq!(read_episodes(&path).unwrap()[0].item, "thé");
        write_json_atomically("/dev/null", &[0]).unwrap();
    }
}

#[test]
fn invalid_word_list_names_the_line() {
    let folder = TempDir::new().unwrap();
    let read = |bytes: &[u8]| {
        let words = read_words(file(&folder, "words.txt", bytes));
        words.map_err(|e| e.to_string().split_once("words.txt: ").unwrap().1.to_owned())
    };
    assert_eq!(read("\u{feff}thé\r\n new york \nc++\n\n".as_bytes()).unwrap(), ["thé", "new york", "c++"]);
    assert_eq!(read(b"a\n\nb\n  \na\n").unwrap(), ["a", "b", "a"], "blank lines are skipped, repeated words are kept");
    for (bytes, message) in
        [(&b"a\nb\xff\n"[..], "line 2: this line is not UTF-8"), (b"", "line 1: the file holds no words")]
    {
        let error = read(bytes).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
    assert!(read("x".repeat(201).as_bytes()).is_err());
    // At most 64 MiB are read.
    for (length, message) in
        [(1 << 26, "line 1: this line has more than 200"), ((1 << 26) + 1, "line 1: the file has more")]
    {
        let error = read(&vec![b'x'; length]).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn row_of_another_game_is_named() {
    let folder = TempDir::new().unwrap();
    let nim = open_game("nim", &Default::default(), None, PromptFormat::Plain).unwrap();
    let row = |name: &str| {
        let history = json!([{"role": "player 0", "content": "[0 3]"}, {"role": "player 1", "content": "[1 4]"}, {"role": "player 0", "content": "[2 5]"}]);
        json!({"history": history, "target_word": "", "max_turns": 0, "seed": 1, "game_name": name}).to_string() + "\n"
    };
    let path = file(&folder, "mixed.jsonl", row("nim") + &row("kuhn-poker"));
    let said = read_games(&path, &*nim).unwrap_err().to_string();
    assert!(said.contains("row 2") && said.contains("the game is kuhn-poker, not nim"), "{said}");
    let path = file(&folder, "nim.jsonl", row("nim"));
    assert_eq!(read_games(&path, &*nim).unwrap()[0].1.winner(), Some(nim.labels().seats[0]));
    assert!(
        read_episodes(&path).unwrap()[0].is_of(&*nim) && !read_episodes(&path).unwrap()[0].is_of(&Taboo::default())
    );
}
