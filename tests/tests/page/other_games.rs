//! Games other than Adversarial Taboo on the page: the routes, and whole games in a browser.

use std::fs;

use serde_json::{Value, json};
use spag_game::{
    CollectedGames, Episode, GameSpec, PlayConfig, ScriptedPolicy, Seats, open_game, play_games, read_episodes,
};
use spag_io::{PromptFormat, write_jsonl_atomically};
use spag_tests::{Serve, program, root, run};

use crate::browser::Browser;
use crate::models::{After, scripted_after};

/// A request about a game of tic-tac-toe.
fn tic_tac_toe(players: [Option<&str>; 2], said: &[(usize, &str)]) -> Value {
    let history = said.iter().map(|(seat, text)| json!({"role": format!("player {seat}"), "content": text}));
    json!({
        "game_name": "tic-tac-toe", "seed": 7, "players": {"player 0": players[0], "player 1": players[1]},
        "history": history.collect::<Vec<_>>(),
    })
}

fn tiny(more: &[&str]) -> Serve {
    let model = root().join("data/tiny-llama");
    Serve::start([model.to_str().unwrap()].into_iter().chain(more.iter().copied()))
}

/// The texts of one kind of a position's messages.
fn texts(position: &Value, kind: &str) -> Vec<String> {
    let messages = position["messages"].as_array().unwrap().iter().filter(|message| message["kind"] == kind);
    messages.map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn positions_have_the_board_and_legal_actions() {
    let server = tiny(&[]);
    let settings = server.get("/page/settings").ok();
    let games: Vec<&str> =
        settings["games"].as_array().unwrap().iter().map(|game| game["name"].as_str().unwrap()).collect();
    assert!(games[0] == "taboo" && games.contains(&"tic-tac-toe") && !games.contains(&"dont-say-it"), "{games:?}");
    let judge = |game: &Value| server.post("/page/judge", game).ok();
    let told = judge(&tic_tac_toe([None, Some("m")], &[]));
    let position = &told["position"];
    assert_eq!(
        (&told["verdict"], &position["to_move"], &position["refusal"]),
        (&Value::Null, &json!("player 0"), &Value::Null)
    );
    assert_eq!(position["legal"].as_array().unwrap().len(), 9);
    assert!(texts(position, "prompt").len() == 1 && texts(position, "board")[0].starts_with("Board:"), "{position}");
    // The player that does not move has nothing to choose from.
    let told = judge(&tic_tac_toe([None, Some("m")], &[(0, "[4]")]));
    assert_eq!((&told["position"]["to_move"], &told["position"]["legal"]), (&json!("player 1"), &Value::Null));
    // A refused action is the next one's reason, and stays that player's turn.
    let told = judge(&tic_tac_toe([None, Some("m")], &[(0, "[4]"), (1, "[0]"), (0, "[4]")]));
    assert_eq!((&told["position"]["refusal"], &told["position"]["to_move"]), (&json!("illegal"), &json!("player 0")));
    assert_eq!(texts(&told["position"], "admin").len(), 1);
    let line = [(0, "[0]"), (1, "[3]"), (0, "[1]"), (1, "[4]"), (0, "[2]")];
    let told = judge(&tic_tac_toe([None, None], &line));
    let verdict = &told["verdict"];
    assert_eq!((&verdict["ending"], &verdict["winner"]), (&json!("line"), &json!("player 0")));
    assert!(verdict["description"].as_str().unwrap().contains("three marks"), "{verdict}");
    assert_eq!((&told["position"]["to_move"], &told["position"]["legal"]), (&Value::Null, &Value::Null));
}

#[test]
fn hidden_cards_are_shown_at_the_end_only() {
    let server = tiny(&["--game", "kuhn-poker", "--game_options", "rounds=1"]);
    let first = server.get("/page/settings").ok()["games"][0].clone();
    assert_eq!((&first["name"], &first["options"]["rounds"]), (&json!("kuhn-poker"), &json!(1)));
    let game = |said: &[(usize, &str)]| {
        let history = said.iter().map(|(seat, text)| json!({"role": format!("player {seat}"), "content": text}));
        let body = json!({
            "game_name": "kuhn-poker", "game_options": first["options"], "seed": 7,
            "players": {"player 0": null, "player 1": "tiny-llama"}, "history": history.collect::<Vec<_>>(),
        });
        server.post("/page/judge", &body).ok()
    };
    let others = |told: &Value| {
        told["position"]["messages"].as_array().unwrap().iter().filter(|one| one["to"] == "player 1").count()
    };
    assert_eq!(others(&game(&[])), 0);
    let ended = game(&[(1, "[bet]"), (0, "[fold]")]);
    assert!(ended["verdict"]["ending"] == "chips" && others(&ended) > 0, "{ended}");
}

#[test]
fn requests_that_are_no_game_are_refused_by_field() {
    let server = tiny(&[]);
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut game = tic_tac_toe([None, Some("tiny-llama")], &[(0, "[4]")]);
        change(&mut game);
        let reply = server.post("/page/turn", &game);
        (reply.status, reply.error())
    };
    let say = |seat: &str, text: String| json!([{"role": seat, "content": text}]);
    let line = json!([[0, "[0]"], [1, "[3]"], [0, "[1]"], [1, "[4]"], [0, "[2]"]]);
    let over: Vec<Value> = line
        .as_array()
        .unwrap()
        .iter()
        .map(|said| json!({"role": format!("player {}", said[0]), "content": said[1]}))
        .collect();
    for (change, status, said) in [
        (Box::new(|game: &mut Value| game["game_name"] = "chess".into()) as Box<dyn Fn(&mut Value)>, 400, "game_name"),
        (Box::new(|game| game["game_name"] = "dont-say-it".into()), 400, "it needs a list of words"),
        (Box::new(|game| game["game_options"] = json!({"rows": 9})), 400, "rows"),
        (Box::new(|game| game["players"] = json!({"player 0": null})), 400, "players.player 1: it is missing"),
        (Box::new(|game| game["players"]["attacker"] = "m".into()), 400, "this game has no seat attacker"),
        (
            Box::new(move |game| game["history"] = say("player 1", "[4]".into())),
            400,
            "history[0].role: expected player 0",
        ),
        (Box::new(move |game| game["history"] = say("player 0", " ".into())), 400, "history[0].content: it is empty"),
        (Box::new(move |game| game["history"] = say("player 0", "x".repeat(2001))), 400, "the most is 2000"),
        (Box::new(|game| game["history"] = json!([])), 400, "players.player 0: a person plays this seat"),
        (Box::new(move |game| game["history"] = json!(over)), 400, "The game is over"),
        (Box::new(|game| game["players"]["player 1"] = "none".into()), 404, "The model `none` does not exist"),
        (Box::new(|game| game["target_word"] = "tiger".into()), 400, "unknown field"),
    ] {
        let (found, error) = refused(&*change);
        assert!(found == status && error.contains(said), "{said}: {found} {error}");
    }
}

/// Plays games with spag-play, and each turn of them again through the server.
#[test]
fn utterances_equal_those_of_spag_play() {
    let work = tempfile::tempdir().unwrap();
    let model = root().join("data/tiny-llama");
    let mut play = program("spag-play");
    play.arg("--attacker_model_name_or_path").arg(&model).arg("--defender_model_name_or_path").arg(&model);
    play.arg("--output_dir").arg(work.path().join("out"));
    play.args(["--game", "kuhn-poker", "--game_options", "rounds=1 error_allowance=9", "--games_per_word", "4"]);
    let more = ["--max_new_tokens", "12", "--temperature", "1"];
    run(play.args(more), 0);
    let results = fs::read_dir(work.path().join("out")).unwrap().map(|entry| entry.unwrap().path());
    let results = results.into_iter().find(|path| path.to_str().unwrap().ends_with("_results.json")).unwrap();
    let server = tiny(&more);
    let mut checked = 0;
    for Episode { history, extra, .. } in read_episodes(results).unwrap() {
        for (at, said) in history.iter().enumerate() {
            let before = history[..at].iter().map(|said| json!({"role": said.seat, "content": said.content}));
            let body = json!({
                "game_name": "kuhn-poker", "game_options": extra["game_options"], "seed": extra["seed"],
                "players": {"player 0": "tiny-llama", "player 1": "tiny-llama"}, "history": before.collect::<Vec<_>>(),
            });
            let last = server.post("/page/turn", &body).events().pop().unwrap();
            assert_eq!(last["utterance"], said.content, "utterance {at}");
            assert_eq!(last["verdict"].is_null(), at + 1 < history.len());
            checked += 1;
        }
    }
    assert!(checked > 8, "{checked}");
}

#[test]
#[ignore = "needs Chromium"]
fn whole_game_of_tic_tac_toe_is_played_against_the_model() {
    let server = tiny(&["--max_new_tokens", "8"]);
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.choose("game", "tic-tac-toe");
    browser.click("input[value='player 0']");
    browser.press("Start a game");
    browser.wait("document.querySelectorAll('.legal button').length === 9");
    assert!(browser.text(".position pre").starts_with("Board:"));
    assert_eq!(browser.texts(".grid-board .cell"), (0..9).map(|cell| format!("[{cell}]")).collect::<Vec<_>>());
    assert_eq!((browser.text("h1"), browser.text(".turn")), ("Tic-Tac-Toe".to_owned(), "Your move".to_owned()));
    // The cells from the first free one on, until the game is over: tiny-llama has not learned the game.
    for turn in 0.. {
        assert!(turn < 6, "{}", browser.text("main"));
        browser.wait("document.querySelector('.legal button') || document.querySelector('.verdict:not([hidden])')");
        if browser.eval("Boolean(document.querySelector('.verdict:not([hidden])'))") == json!(true) {
            break;
        }
        browser.click(".legal button");
        browser.wait(&format!("document.querySelectorAll('.said.own').length === {}", turn + 1));
    }
    let verdict = browser.text(".verdict");
    assert!(
        verdict.starts_with("You win") || verdict.starts_with("You lose") || verdict.starts_with("A tie"),
        "{verdict}"
    );
    assert!(browser.text(".score").contains("This sitting"));
    // The judge of a link says the same.
    browser.eval("(navigator.clipboard.writeText = async (text) => { window.copied = text; }, 1)");
    browser.press("Copy link");
    browser.wait("window.copied");
    let (link, said) = (browser.eval("copied").as_str().unwrap().to_owned(), browser.texts(".said .text"));
    browser.new_tab();
    browser.open(&link);
    browser.wait("document.querySelector('.verdict:not([hidden])')");
    assert_eq!(browser.texts(".said .text"), said);
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn connect_four_is_played_on_the_same_board() {
    let folder = tempfile::tempdir().unwrap();
    let model = scripted_after(&folder.path().join("left"), "\n", "[0]", After::Ends);
    let server = Serve::start([model.to_str().unwrap(), "--game", "connect-four"]);
    let browser = Browser::start();
    browser.look(360, "light");
    browser.open(&server.url("/"));
    browser.press("Start a game");
    // One cell of each column can be pressed, the lowest free one.
    browser.wait("document.querySelectorAll('.legal button').length === 7");
    assert_eq!(browser.eval("document.querySelectorAll('.grid-board .cell').length"), json!(42));
    browser.assert_fits("the board");
    browser.press("[col 0]");
    browser.wait("document.querySelectorAll('.grid-board .taken').length === 2");
    let at = "[...document.querySelectorAll('.grid-board .cell')].findIndex((cell) => cell.textContent === '[col 0]')";
    assert_eq!(browser.eval(at), json!(21), "the third cell from below");
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn refusals_and_lines_decide_games_that_fit_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let model = scripted_after(&folder.path().join("corner"), "\n", "[4]", After::Ends);
    let server = Serve::start([model.to_str().unwrap(), "--game", "tic-tac-toe"]);
    let browser = Browser::start();
    for (width, scheme) in [(360, "light"), (1600, "dark")] {
        browser.look(width, scheme);
        let check = |name: &str| {
            browser.assert_fits(&format!("{name} at {width}"));
            browser.shoot(&format!("other-{name}-{width}-{scheme}"));
        };
        browser.open(&server.url("/"));
        browser.eval("sessionStorage.clear()");
        browser.refresh();
        browser.wait("document.querySelector('.setup')");
        check("start");
        browser.press("Start a game");
        browser.wait("document.querySelectorAll('.legal button').length === 9");
        browser.say("[0]");
        browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 2");
        assert_eq!(browser.texts(".said .text"), ["[0]", "[4]"]);
        // What is taken already is refused, with the reason, and one moves again.
        browser.say("[4]");
        browser.wait("document.querySelector('.told.refused')");
        assert!(browser.text(".told.refused").contains("refused"));
        check("refused");
        browser.say("[1]");
        // The model says the same again and again, which is refused twice.
        browser.wait("document.querySelector('.verdict:not([hidden])')");
        assert!(
            browser.text(".verdict").starts_with("You winA player loses by actions that are refused."),
            "{}",
            browser.text(".verdict")
        );
        check("verdict");
        browser.open(&server.url("/#watch"));
        browser.press("Watch a game");
        browser.wait_text("Player 0 wins");
        assert_eq!(browser.texts(".who")[..2], ["Player 0 · corner", "Player 1 · corner"]);
        check("watched");
    }
    browser.end(&[]);
}

/// A folder of a run of Nim and Kuhn poker, with random games of each.
fn run_of_two_games() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        "judge = \"paper\"\n[[games]]\ngame = \"nim\"\nshare = 1.0\n[[games]]\ngame = \"kuhn-poker\"\nshare = 1.0\n";
    fs::write(folder.path().join("config.resolved.toml"), settings).unwrap();
    for name in ["nim", "kuhn-poker"] {
        let game = open_game(name, &Default::default(), None, PromptFormat::Plain).unwrap();
        let spec = |number| GameSpec {
            number,
            item: String::new(),
            max_turns: 0,
            seed: u64::MAX - number as u64,
            sampling_seed: None,
        };
        let (mut player, mut played) = (ScriptedPolicy::random_actions(), CollectedGames::default());
        let (seats, config) = (Seats::SelfPlay(&mut player), PlayConfig::default());
        play_games(&*game, (0..12).map(spec), seats, &config, &mut played).unwrap();
        let episodes: Vec<Episode> = played.finished.into_iter().map(|game| game.episode).collect();
        for file in ["im/NAME/episodes.jsonl", "eval/NAME/im-vs-im.jsonl"] {
            let path = folder.path().join(file.replace("NAME", name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write_jsonl_atomically(path, &episodes).unwrap();
        }
    }
    folder
}

#[test]
fn page_of_a_run_plays_its_games_and_words_unless_others_are_named() {
    let folder = run_of_two_games();
    let run = folder.path().to_str().unwrap();
    let first = |flags: &[&str]| {
        let settings = tiny(flags).get("/page/settings").ok();
        let games = settings["games"].as_array().unwrap().iter().map(|game| game["name"].as_str().unwrap().to_owned());
        games.take(2).collect::<Vec<_>>()
    };
    assert_eq!(first(&["--run", run]), ["nim", "kuhn-poker"]);
    assert_eq!(first(&["--run", run, "--game", "tic-tac-toe"])[0], "tic-tac-toe");
    assert_eq!(first(&[])[0], "taboo");
    fs::write(folder.path().join("list.txt"), "zebra\n").unwrap();
    let list = folder.path().join("list.txt");
    let settings = format!("judge = \"whole-word\"\nmax_turns = 3\n[words]\nfile = {list:?}\n");
    fs::write(folder.path().join("config.resolved.toml"), settings).unwrap();
    fs::create_dir_all(folder.path().join("im")).unwrap();
    fs::write(folder.path().join("im/episodes.jsonl"), "").unwrap();
    let server = tiny(&["--run", run]);
    let word = server.get("/page/word").ok();
    assert_eq!((&word["target_word"], &word["max_turns"]), (&json!("zebra"), &json!(3)));
    assert_eq!(server.get("/page/settings").ok()["judge"], "whole-word");
    assert_eq!(tiny(&["--run", run, "--max_turns", "4"]).get("/page/word").ok()["max_turns"], 4);
}

#[test]
fn records_of_several_games_are_browsed_each_with_its_own_judge() {
    let folder = run_of_two_games();
    let server = tiny(&["--run", folder.path().to_str().unwrap()]);
    let files = server.get("/page/run").ok()["files"].clone();
    let names: Vec<&str> = files.as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap()).collect();
    for (name, ending, item) in [("nim", "last_object", "deal"), ("kuhn-poker", "chips", "deal")] {
        for file in [format!("im/{name}/episodes.jsonl"), format!("eval/{name}/im-vs-im.jsonl")] {
            assert!(names.contains(&&*file), "{names:?}");
            let list = server.get(&format!("/page/run/games?file={file}")).ok();
            assert_eq!((&list["total"], &list["unreadable"], &list["item"]), (&json!(12), &json!(0), &json!(item)));
            assert_eq!(list["endings"][0]["ending"], ending);
            let won = |seat: &str| {
                let list = server.get(&format!("/page/run/games?file={file}&winner={}", seat.replace(' ', "%20"))).ok();
                list["matching"].as_u64().unwrap()
            };
            assert_eq!(won("player 0") + won("player 1") + won("none"), 12);
            let game = server.get(&format!("/page/run/game?file={file}&row=1")).ok();
            assert!(!texts(&game["position"], "prompt").is_empty() && game["position"]["to_move"].is_null(), "{game}");
            assert_eq!(
                (&game["seats"], &game["verdict"]["winner"]),
                (&json!(["player 0", "player 1"]), &game["winner"])
            );
        }
    }
}

#[test]
#[ignore = "needs Chromium"]
fn records_of_several_games_are_shown_with_their_boards() {
    let folder = run_of_two_games();
    let server = tiny(&["--run", folder.path().to_str().unwrap()]);
    let browser = Browser::start();
    for width in [360, 1600] {
        browser.look(width, "light");
        browser.open(&server.url("/#runs?file=eval/nim/im-vs-im.jsonl"));
        browser.wait("document.querySelectorAll('table.games tbody tr').length === 12");
        assert_eq!(browser.text("table.games thead th"), "Game");
        assert!(!browser.text(".filters").contains("false"));
        browser.assert_fits("the list");
        browser.shoot(&format!("other-list-{width}"));
        browser.click("table.games tbody a");
        browser.wait("document.querySelector('.position pre')");
        assert!(browser.text(".verdict").contains("Player") && browser.text(".word") == "Nim");
        browser.assert_fits("a game");
        browser.shoot(&format!("other-recorded-{width}"));
    }
    browser.end(&[]);
}
