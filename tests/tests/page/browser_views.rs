//! The page for keyboards, small and large screens, and those who only watch.

use serde_json::json;
use thirtyfour::Key;

use crate::browser::Browser;
use crate::models::Cast;
use crate::run_routes::run_folder;

const MODELS: [(&str, &str); 2] = [("clue", "It has stripes"), ("right", "I know the word! It is tiger")];

/// Presses Tab until an element has the focus, which must be visible.
fn tab_to(browser: &Browser, css: &str) {
    for _ in 0..60 {
        browser.keys(Key::Tab);
        if browser.eval(&format!("document.activeElement.matches({})", json!(css))) == json!(true) {
            // A radio button is shown by the card around it.
            let outline = browser.eval("getComputedStyle(document.activeElement).outlineStyle");
            assert_ne!(outline, "none", "{css}: the focus is not visible");
            return;
        }
    }
    panic!("Tab does not reach {css}");
}

#[test]
#[ignore = "needs Chromium"]
fn keyboard_alone_plays_a_game() {
    let server = Cast::new(&MODELS[..1]).serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.wait("document.querySelector('.setup')");
    tab_to(&browser, ".skip");
    browser.keys(Key::Enter);
    browser.wait("document.activeElement.id === 'main'");
    tab_to(&browser, "input[name=seat]");
    browser.keys(Key::Down);
    assert_eq!(browser.eval("document.querySelector('input[name=seat]:checked').value"), "defender");
    tab_to(&browser, "button.main");
    browser.keys(Key::Enter);
    // The model begins; then one can speak at once.
    browser.wait("document.activeElement.id === 'say' && !document.activeElement.readOnly");
    browser.wait("document.getElementById('announcer').textContent === 'Attacker: It has stripes'");
    browser.keys("A zebra?".to_owned() + Key::Shift + Key::Enter + Key::Null + "Or what?");
    browser.keys(Key::Enter);
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 3");
    assert_eq!(browser.texts(".said .text")[1], "A zebra?\nOr what?");
    browser.wait("document.activeElement.id === 'say' && !document.activeElement.readOnly");
    // An empty utterance is none.
    browser.keys(Key::Enter);
    browser.wait_text("Say something first");
    tab_to(&browser, ".composer button[type=button]");
    browser.keys(Key::Enter);
    browser.keys("tiger!");
    browser.keys(Key::Enter);
    browser.wait_text("You win");
    browser.wait("document.activeElement.matches('.verdict')");
    tab_to(&browser, ".actions .main");
    browser.keys(Key::Enter);
    browser.wait("document.activeElement.id === 'say'");
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn landmarks_and_labels_name_everything() {
    let folder = run_folder();
    let server = Cast::new(&MODELS).with(&["--run", folder.path().to_str().unwrap()]).serve();
    let browser = Browser::start();
    for view in ["#play", "#watch", "#runs"] {
        browser.open(&server.url(&format!("/{view}")));
        browser.wait("document.querySelector('main form')");
        let nameless = browser.eval(
            "[...document.querySelectorAll('main button, main input, main select, main textarea, main a')].filter((one) => \
             !one.textContent.trim() && !one.getAttribute('aria-label') && !one.labels?.[0]?.textContent.trim())\
             .map((one) => one.outerHTML)",
        );
        assert_eq!(nameless, json!([]), "{view}");
        let landmarks = browser.eval("['header', 'nav[aria-label]', 'main', 'h1', '[role=status]'].map((one) => document.querySelectorAll(one).length)");
        assert!(landmarks.as_array().unwrap().iter().all(|number| number.as_u64() > Some(0)), "{view}: {landmarks}");
        assert_eq!(browser.eval("document.documentElement.lang"), "en");
        assert_eq!(browser.eval("document.querySelector('nav [aria-current]').hash"), view);
    }
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn nothing_scrolls_sideways_at_360_and_1600_pixels() {
    let folder = run_folder();
    let server = Cast::new(&MODELS).with(&["--run", folder.path().to_str().unwrap()]).serve();
    let browser = Browser::start();
    for (width, scheme) in [(360, "light"), (360, "dark"), (1600, "light"), (1600, "dark")] {
        browser.look(width, scheme);
        let check = |name: &str| {
            browser.assert_fits(&format!("{name} at {width}, {scheme}"));
            browser.shoot(&format!("{name}-{width}-{scheme}"));
        };
        browser.open(&server.url("/"));
        browser.eval("sessionStorage.clear()");
        browser.refresh();
        browser.wait("document.querySelector('.setup')");
        check("start");
        browser.choose("model", "right");
        browser.press("Start a game");
        browser.wait("document.activeElement.id === 'say'");
        check("game");
        browser.say("It has claws.");
        browser.wait("document.querySelector('.verdict:not([hidden])')");
        check("verdict");
        for (name, view, ready) in [
            ("watch", "#watch", ".setup"),
            ("games", "#runs", "table"),
            ("recorded", "#runs?file=eval/im-vs-spag-1.jsonl&row=1", ".board"),
            ("report", "#runs?report", ".report .chart"),
        ] {
            browser.open(&server.url(&format!("/{view}")));
            browser.wait(&format!("document.querySelector({})", json!(ready)));
            check(name);
        }
    }
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn models_are_watched_token_by_token() {
    let server = Cast::new(&MODELS).serve();
    let browser = Browser::start();
    browser.open(&server.url("/#watch"));
    browser.choose("attacker", "clue");
    browser.choose("defender", "right");
    browser.eval(
        "(window.seen = [], new MutationObserver(() => { const text = document.querySelector('.streaming .text')?.textContent; \
         if (text) seen.push(text); }).observe(document.body, { childList: true, subtree: true, characterData: true }))",
    );
    browser.press("Watch a game");
    browser.wait_text("The defender wins");
    assert_eq!(browser.texts(".said .text"), ["It has stripes", "I know the word! It is tiger"]);
    assert_eq!(browser.texts(".who"), ["Attacker · clue", "Defender · right"]);
    assert_eq!(browser.texts("mark"), ["I know the word! It is tiger"]);
    // Each text that was seen in progress is the beginning of an utterance.
    let seen = browser.eval("seen");
    let seen: Vec<&str> = seen.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert!(
        seen.iter()
            .all(|text| ["It has stripes", "I know the word! It is tiger"].iter().any(|all| all.starts_with(text))),
        "{seen:?}"
    );
    assert_eq!(browser.texts(".actions button"), ["Watch another", "Copy link", "Download JSON"]);
    assert_eq!(browser.text(".actions"), browser.texts(".actions button").concat());
    // Another view and back: the game is still there.
    browser.press("Play");
    browser.press("Watch");
    browser.wait_text("The defender wins");
    browser.press("Watch a game");
    browser.wait_text("The defender wins");
    browser.end(&[]);
}
