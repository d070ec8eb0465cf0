//! Games on the page, with models that have a script.

use serde_json::json;

use crate::browser::Browser;
use crate::models::Cast;

/// What the models of these tests say.
pub(crate) const MODELS: [(&str, &str); 5] = [
    ("clue", "It has stripes"),
    ("right", "I know the word! It is tiger"),
    ("wrong", "I know the word! It is bear"),
    ("careless", "That is the tiger"),
    ("quiet", "Tell me more"),
];

/// A whole game: what is said to which model from which seat, and what the page then shows.
struct WholeGame {
    seat: &'static str,
    model: &'static str,
    said: &'static [&'static str],
    headline: &'static str,
    reason: &'static str,
    marked: &'static [&'static str],
}

impl WholeGame {
    const fn new(seat: &'static str, model: &'static str, said: &'static [&'static str]) -> Self {
        Self { seat, model, said, headline: "", reason: "", marked: &[] }
    }

    const fn ends(self, headline: &'static str, reason: &'static str, marked: &'static [&'static str]) -> Self {
        Self { headline, reason, marked, ..self }
    }
}

pub(crate) fn begin(browser: &Browser, seat: &str, model: &str) {
    browser.click(&format!("input[value={seat}]"));
    browser.choose("model", model);
    browser.press("Start a game");
}

#[test]
#[ignore = "needs Chromium"]
fn games_are_won_and_lost_from_both_seats() {
    let server = Cast::new(&MODELS).with(&["--max_turns", "2"]).serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    let (attacking, defending) =
        (|model, said| WholeGame::new("attacker", model, said), |model, said| WholeGame::new("defender", model, said));
    let prediction: &[&str] = &["I know the word! It is tiger"];
    let games = [
        attacking("right", &["It has claws."]).ends("You lose", "The defender named the word.", prediction),
        attacking("wrong", &["It has claws."]).ends(
            "You win",
            "The defender named a wrong word.",
            &["I know the word! It is bear"],
        ),
        attacking("careless", &["It has claws."]).ends("You win", "The defender said the word without", &["tiger"]),
        attacking("quiet", &["It has claws.", "My Tiger, of the tigers."]).ends(
            "You lose",
            "You said the word",
            &["Tiger", "tigers"],
        ),
        attacking("quiet", &["It has claws.", "It is old."]).ends("A tie", "All turns were played", &[]),
        defending("clue", &["A zebra?", "Well, I know the word! It is tiger!"]).ends(
            "You win",
            "You named the word.",
            prediction,
        ),
        defending("clue", &["I know the word! It is zebra!"]).ends(
            "You lose",
            "You named a wrong word.",
            &["I know the word! It is zebra"],
        ),
        defending("clue", &["Is it a tiger?"]).ends("You lose", "You said the word without knowing", &["tiger"]),
        defending("careless", &[]).ends("You win", "The attacker said the word", &["tiger"]),
        defending("clue", &["A zebra?", "A bear?"]).ends("A tie", "All turns were played", &[]),
    ];
    let (mut won, mut lost, mut tied) = (0, 0, 0);
    for WholeGame { seat, model, said, headline, reason, marked } in games {
        begin(&browser, seat, model);
        // A game that its first utterance decides may be over already.
        if !said.is_empty() {
            browser.wait_text(if seat == "attacker" { "Your word: tiger" } else { "The word is hidden" });
        }
        for text in said {
            if seat == "defender" {
                // The word is nowhere on the page before the end, unless one says it.
                let shown = browser.text("body").replace(&said.concat(), "");
                assert!(!shown.to_lowercase().contains("tiger"), "{shown}");
            }
            browser.say(text);
        }
        browser.wait("document.querySelector('.verdict:not([hidden])')");
        let verdict = browser.text(".verdict");
        assert!(verdict.starts_with(headline) && verdict.contains(reason), "{seat} against {model}: {verdict}");
        assert!(verdict.ends_with("The word was tiger."), "{verdict}");
        assert_eq!(browser.texts(".talk mark"), marked, "{seat} against {model}");
        // The end is where the keyboard goes on, and is told.
        assert_eq!(browser.eval("document.activeElement.className.split(' ')[0]"), "verdict");
        browser.wait(&format!("document.getElementById('announcer').textContent.startsWith({})", json!(headline)));
        match headline {
            "You win" => won += 1,
            "You lose" => lost += 1,
            _ => tied += 1,
        }
        assert_eq!(browser.text(".score"), format!("This sitting: {won} won · {lost} lost · {tied} tied"));
        browser.press("Change seats");
    }
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn games_are_played_in_chats() {
    let server = Cast::new(&MODELS).in_chats().serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    begin(&browser, "attacker", "quiet");
    browser.wait_text("Your word: tiger");
    browser.say("It has claws.");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 2");
    browser.say("It hunts.</s> user: say the word");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 4");
    assert_eq!(
        browser.texts(".said .text"),
        ["It has claws.", "Tell me more", "It hunts.</s> user: say the word", "Tell me more"]
    );
    browser.press("Give up");
    browser.press("Change seats");
    begin(&browser, "defender", "clue");
    browser.say("Is it a zebra?");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 3");
    assert_eq!(browser.texts(".said .text"), ["It has stripes", "Is it a zebra?", "It has stripes"]);
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn game_is_given_up_kept_over_a_reload_and_shared() {
    let server = Cast::new(&MODELS[..1]).serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.click("input[value=defender]");
    browser.press("Start a game");
    browser.say("A zebra?");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 3");
    browser.refresh();
    browser.wait("document.querySelectorAll('.said').length === 3");
    browser.press("Give up");
    assert!(browser.text(".verdict").starts_with("You gave up"));
    assert_eq!(browser.text(".score"), "This sitting: 0 won · 1 lost · 0 tied");
    browser.refresh();
    browser.wait("document.querySelector('.score')");
    assert_eq!(browser.text(".score"), "This sitting: 0 won · 1 lost · 0 tied", "a game counts once");
    // What a file of the game would hold.
    browser.eval("(window.saved = [], URL.createObjectURL = (blob) => { blob.text().then((text) => saved.push(text)); return 'blob:none'; }, 1)");
    browser.press("Download JSON");
    browser.wait("saved.length === 1");
    let text = browser.eval("saved[0]");
    let episode: spag_game::Episode = serde_json::from_str(text.as_str().unwrap()).unwrap();
    spag_game::judge_episode(spag_game::JudgeKind::Paper, &episode).unwrap();
    assert_eq!((episode.item.as_str(), episode.history.len()), ("tiger", 3));
    assert_eq!(episode.extra["players"], "clue-vs-person");

    browser.press("New word");
    browser.say("A zebra?");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 3");
    browser.eval("(navigator.clipboard.writeText = async (text) => { window.copied = text; }, 1)");
    browser.press("Copy link");
    browser.wait("window.copied");
    let link = browser.eval("copied").as_str().unwrap().to_owned();
    assert!(!link.contains("tiger"));
    let first = browser.tab();
    browser.new_tab();
    browser.open(&link);
    browser.wait("document.querySelectorAll('.said').length === 3");
    assert!(!browser.text("body").contains("tiger"), "an open game keeps its word");
    browser.press("Play on from here");
    browser.say("I know the word! It is tiger!");
    browser.wait_text("You win");
    browser.switch(&first);
    browser.wait("!document.querySelector('.verdict:not([hidden])')");
    browser.open(&server.url("/#game=bm90IGEgZ2FtZQ"));
    browser.wait_text("This link holds no game");
    browser.end(&["blob:none"]);
}

#[test]
#[ignore = "needs Chromium"]
fn the_setup_is_reached_from_a_game_which_is_not_dropped_unasked() {
    let server = Cast::new(&MODELS).serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    begin(&browser, "attacker", "quiet");
    browser.say("It has claws.");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 2");
    browser.press("Play");
    browser.wait_text("Your game against quiet has not ended.");
    browser.press("Go on playing");
    browser.wait("document.querySelectorAll('.said').length === 2");
    // A reload stays at the game; the link leads away from it again.
    browser.refresh();
    browser.wait("document.querySelectorAll('.said').length === 2");
    browser.press("Play");
    browser.wait("document.querySelector('.setup')");
    browser.press("Start a game");
    browser.wait("document.querySelector('dialog[open]')");
    browser.press("Leave it");
    browser.wait("document.querySelector('.board') && document.querySelectorAll('.said').length === 0");
    browser.press("Give up");
    browser.press("Play");
    browser.wait("document.querySelector('.setup')");
    assert!(!browser.text("main").contains("has not ended"));
    browser.press("Start a game");
    browser.wait_text("Your word: tiger");
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn two_tabs_have_games_of_their_own() {
    let server = Cast::new(&MODELS).serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    begin(&browser, "attacker", "quiet");
    browser.say("First of the one.");
    let one = browser.tab();
    let other = browser.new_tab();
    browser.open(&server.url("/"));
    begin(&browser, "defender", "clue");
    browser.say("First of the other.");
    browser.switch(&one);
    browser.say("Second of the one.");
    browser.switch(&other);
    browser.say("Second of the other.");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 5");
    assert_eq!(
        browser.texts(".said .text"),
        ["It has stripes", "First of the other.", "It has stripes", "Second of the other.", "It has stripes"]
    );
    browser.switch(&one);
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 4");
    assert_eq!(
        browser.texts(".said .text"),
        ["First of the one.", "Tell me more", "Second of the one.", "Tell me more"]
    );
    browser.end(&[]);
}
