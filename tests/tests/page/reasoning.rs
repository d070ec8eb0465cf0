//! Reasoning of models on the page: private while a person plays, shown afterwards and where models play alone.

use serde_json::{Value, json};
use spag_tests::Serve;

use crate::browser::Browser;
use crate::models::Cast;
use crate::routes::game;

fn serve() -> Serve {
    let reasoning = ["--reasoning", "think", "--reasoning_tags", "( )", "--max_turns", "2"];
    Cast::new(&[("deep", "(It has stripes) Tell me more")]).with(&reasoning).serve()
}

/// The pieces of what is said and of reasoning, and the last event.
fn turn(server: &Serve, game: &Value) -> (String, String, Value) {
    let mut events = server.post("/page/turn", game).events();
    let last = events.pop().unwrap();
    let pieces =
        |key: &str| events.iter().filter_map(|event| event[key].as_str()).collect::<String>().trim().to_owned();
    (pieces("delta"), pieces("reasoning"), last)
}

#[test]
fn reasoning_is_private_until_no_person_plays_against_it() {
    let server = serve();
    let said = ["It hunts.", "Tell me more", "A cat."];
    let thought = |utterance: usize| json!({"utterance": utterance, "reasoning": "It has stripes"});
    let playing = server.post("/page/turn", &game(None, Some("deep"), &said[..1]));
    assert!(playing.text.contains("\"Tell me more\"") && !playing.text.contains("stripes"), "{playing:?}");
    let mut judged = game(None, Some("deep"), &said);
    assert_eq!(server.post("/page/judge", &judged).ok(), json!({"verdict": null}));
    // Giving up ends the game.
    judged["gave_up"] = true.into();
    assert_eq!(server.post("/page/judge", &judged).ok()["thoughts"], json!([thought(1)]));
    let refused = server.post("/page/turn", &judged);
    assert!(refused.status == 400 && refused.error().contains("The game is over"), "{refused:?}");
    // The last turn ends it too, and its pieces come before.
    let (pieces, reasoning, last) = turn(&server, &game(None, Some("deep"), &said));
    assert_eq!((&*pieces, &*reasoning, &last["utterance"]), ("Tell me more", "", &json!("Tell me more")));
    assert_eq!((&last["verdict"]["ending"], &last["thoughts"]), (&json!("tie"), &json!([thought(1), thought(3)])));

    let (pieces, reasoning, last) = turn(&server, &game(Some("deep"), Some("deep"), &[]));
    assert_eq!((&*pieces, &*reasoning, &last["thoughts"]), ("Tell me more", "It has stripes", &json!([thought(0)])));
    // Those of another game are its own.
    assert!(server.post("/page/judge", &game(Some("deep"), Some("other"), &said[1..2])).ok().get("thoughts").is_none());
}

#[test]
fn reasoning_has_a_budget_on_the_page() {
    let flags = ["--reasoning", "think", "--reasoning_tags", "( )", "--max_reasoning_tokens", "2"];
    let server = Cast::new(&[("deep", "(It has stripes) Tell me more")]).with(&flags).serve();
    let (_, _, last) = turn(&server, &game(Some("deep"), Some("deep"), &[]));
    let thought = &last["thoughts"][0];
    assert_eq!(thought["reasoning_end"], "forced");
    assert!("It has stripes".len() > thought["reasoning"].as_str().map_or(0, str::len), "{thought}");
}

#[test]
#[ignore = "needs Chromium"]
fn reasoning_is_folded_and_shown_after_the_game() {
    let server = serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.press("Start a game");
    browser.say("It hunts.");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 2");
    assert!(browser.texts(".thought").is_empty());
    browser.press("Give up");
    browser.wait("document.querySelector('.thought:not([open])')");
    assert_eq!(browser.texts(".thought p"), ["It has stripes"]);
    assert_eq!(browser.texts(".said .text"), ["It hunts.", "Tell me more"]);
    browser.open(&server.url("/#watch"));
    browser.press("Watch a game");
    browser.wait_text("A tie");
    assert_eq!(browser.texts(".thought p"), ["It has stripes"; 4]);
    browser.click(".thought summary");
    browser.wait("document.querySelector('.thought[open]')");
    browser.assert_fits("a game with reasoning");
    browser.shoot("reasoning");
    browser.end(&[]);
}
