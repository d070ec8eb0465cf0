//! How a game begins on the page: its goal, its options, and what happens to the one before.

use serde_json::json;
use spag_tests::{Serve, root};

use crate::browser::Browser;
use crate::models::Cast;

const MODELS: [(&str, &str); 2] = [("quiet", "Tell me more"), ("right", "I know the word! It is tiger")];

#[test]
#[ignore = "needs Chromium"]
fn goal_and_opponent_are_told_and_no_game_is_dropped_unasked() {
    let server = Cast::new(&MODELS).serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.choose("model", "quiet");
    browser.press("Start a game");
    let goal = browser.text(".goal");
    assert!(
        goal.contains("You are the attacker. Make quiet say tiger") && goal.contains("Begin with a question"),
        "{goal}"
    );
    assert_eq!(browser.text(".against"), "Against quiet");
    // Before anything was said, nothing is lost.
    browser.eval("(document.querySelector('.board').dataset.old = 'yes')");
    browser.press("New word");
    browser.wait("document.querySelector('.board:not([data-old])') && document.querySelector('.goal')");
    browser.say("What hunts?");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 2");
    assert_eq!(browser.eval("document.querySelector('.goal')"), json!(null));
    browser.press("New word");
    browser.wait("document.querySelector('dialog[open]')");
    browser.press("Go on playing");
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(browser.texts(".said .text"), ["What hunts?", "Tell me more"]);
    browser.press("New word");
    browser.press("Leave it");
    browser.wait("document.querySelector('.goal') && document.querySelectorAll('.said').length === 0");
    browser.press("Give up");
    browser.press("Change seats");
    browser.click("input[value=defender]");
    browser.press("Start a game");
    let goal = browser.text(".goal");
    assert!(goal.contains("You are the defender. quiet has a word") && !goal.contains("tiger"), "{goal}");
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn word_temperature_and_seed_are_chosen() {
    let server = Serve::start([root().join("data/tiny-llama").to_str().unwrap(), "--max_new_tokens", "12"]);
    let browser = Browser::start();
    let play = |seed: &str, temperature: &str| {
        browser.open(&server.url("/"));
        browser.eval("sessionStorage.clear()");
        browser.refresh();
        browser.wait("document.querySelector('.setup')");
        browser.click(".options summary");
        for (name, value) in [("word", "lemon"), ("temperature", temperature), ("seed", seed)] {
            browser.type_into(&format!(".options input[name={name}]"), value);
        }
        browser.press("Start a game");
        browser.wait_text("Your word: lemon");
        browser.say("Which fruit?");
        browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 2");
        browser.texts(".said .text")[1].clone()
    };
    let said = play("5", "8");
    let kept = browser.eval("(({ seed, temperature, target_word }) => [seed, temperature, target_word])(JSON.parse(sessionStorage['spag.game']))");
    assert_eq!(kept, json!([5, 8, "lemon"]));
    assert_eq!(play("5", "8"), said, "the same seed");
    // At this temperature the model's words are those of the seed.
    assert_ne!(play("6", "8"), said, "another seed");
    assert_eq!(play("5", "0"), play("6", "0"), "greedy");
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn another_game_is_watched_with_one_button() {
    let server = Cast::new(&MODELS).serve();
    let browser = Browser::start();
    browser.open(&server.url("/#watch"));
    browser.wait_text("Watch models play");
    browser.choose("attacker", "quiet");
    browser.choose("defender", "right");
    browser.press("Watch a game");
    browser.wait_text("The defender wins");
    browser.eval("(document.querySelector('.board').dataset.old = 'yes')");
    browser.press("Watch another");
    browser.wait("document.querySelector('.board:not([data-old])')");
    browser.wait_text("The defender wins");
    let one = Cast::new(&MODELS[..1]).serve();
    browser.open(&one.url("/#watch"));
    browser.wait_text("Watch the model play itself");
    browser.end(&[]);
}
