//! What people, models, links and files say is text.

use serde_json::json;

use crate::browser::Browser;
use crate::models::Cast;

const HOSTILE: [&str; 6] = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror=\"window.pwned = 1\">",
    "\u{202e}\u{2067}gnp.exe \u{202d}",
    "&lt;b&gt; {{7*7}} ${7*7} `x` \\u003cb\\u003e",
    "\u{0}\u{7}\u{1b}[31m\u{feff}\u{200b}",
    "Z\u{34f}\u{301}\u{301}\u{301}\u{301}\u{301}a",
];

/// Nothing that was said became an element or ran, and nothing is wider than the page.
fn assert_harmless(browser: &Browser, what: &str) {
    assert_eq!(browser.eval("typeof window.pwned"), "undefined", "{what}");
    let elements =
        browser.eval("document.querySelectorAll('main :is(script, img, b b, iframe, object, style, svg)').length");
    assert_eq!(elements, 0, "{what}");
    browser.assert_fits(what);
}

/// Puts a text into the field, as pasting does, and says it.
fn paste(browser: &Browser, text: &str) {
    browser.wait("document.querySelector('#say:not([readonly])')");
    browser.eval(&format!(
        "(document.getElementById('say').value = {}, document.getElementById('say').dispatchEvent(new Event('input')))",
        json!(text)
    ));
    browser.press("Say it");
}

#[test]
#[ignore = "needs Chromium"]
fn hostile_utterances_stay_text() {
    let server = Cast::new(&[("markup", "<script>")]).with(&["--max_turns", "9"]).serve();
    let browser = Browser::start();
    browser.look(360, "light");
    browser.open(&server.url("/"));
    browser.press("Start a game");
    let mut said = Vec::new();
    for text in HOSTILE {
        paste(&browser, text);
        said.extend([text.trim().to_owned(), "<script>".to_owned()]);
        browser.wait(&format!("document.querySelectorAll('.said:not(.streaming)').length === {}", said.len()));
        assert_harmless(&browser, text);
    }
    let shown = browser.texts(".said .text");
    // A browser shows no NUL.
    assert_eq!(shown.iter().map(|text| text.replace('\u{fffd}', "\u{0}")).collect::<Vec<_>>(), said);
    // Marks of direction end with the utterance: the name of the speaker is where it was.
    let isolated = browser.eval(
        "[...document.querySelectorAll('.said .text')].every((one) => getComputedStyle(one).unicodeBidi === 'isolate')",
    );
    assert_eq!(isolated, true);

    // Too long: said at once, and nothing is lost.
    let long = "x".repeat(10_000);
    paste(&browser, &long);
    browser.wait_text("10,000 characters are too many: an utterance has at most 2,000");
    assert_eq!(browser.eval("document.getElementById('say').value.length"), 10_000);
    assert_eq!(browser.eval("document.getElementById('say').getAttribute('aria-invalid')"), "true");
    assert_eq!(browser.texts(".said").len(), said.len());
    // One word of the greatest length.
    paste(&browser, &long[..2000]);
    browser.wait(&format!("document.querySelectorAll('.said:not(.streaming)').length === {}", said.len() + 2));
    assert_harmless(&browser, "a long word");
    // Half of a character.
    browser.eval("(document.getElementById('say').value = 'a\\ud800b', 1)");
    browser.press("Say it");
    browser.wait(&format!("document.querySelectorAll('.said:not(.streaming)').length === {}", said.len() + 4));
    assert_eq!(browser.texts(".said .text")[said.len() + 2], "a\u{fffd}b");
    browser.end(&[]);
}

#[test]
#[ignore = "needs Chromium"]
fn hostile_links_stay_text() {
    let server = Cast::new(&[("clue", "It has stripes")]).serve();
    let browser = Browser::start();
    browser.look(360, "dark");
    browser.open(&server.url("/"));
    browser.wait("document.querySelector('.setup')");
    for text in HOSTILE.iter().copied().chain([&*"w".repeat(10_000), &*"a b ".repeat(2500)]) {
        // A model may say anything of any length, and have any name.
        let word: String = text.chars().filter(|c| !c.is_control()).take(190).collect();
        let game = json!({"w": format!("w {word}"), "t": 5, "s": 1, "a": text, "d": text, "g": false, "h": [text, text, text]});
        browser.eval(&format!(
            "(location.hash = '#game=' + btoa(String.fromCharCode(...new TextEncoder().encode({})))\
             .replaceAll('+', '-').replaceAll('/', '_'))",
            json!(game.to_string())
        ));
        browser.wait("document.querySelectorAll('.said').length === 3 && document.querySelector('.actions button')");
        assert_harmless(&browser, text);
        let shown = browser.text(".said .text");
        assert_eq!(shown.replace('\u{fffd}', "\u{0}").trim(), text.trim());
        browser.eval("(location.hash = '#watch')");
        browser.wait_text("Watch the model play itself");
    }
    for game in [
        json!({"w": "", "t": 5, "s": 1, "a": null, "d": "clue", "h": []}),
        json!({"w": "x", "t": 0, "s": 1, "a": null, "d": "clue", "h": []}),
        json!({"w": "x", "t": 1, "s": 1, "a": null, "d": "clue", "h": ["a", "b", "c"]}),
        json!({"w": "x", "t": 1, "s": 1, "a": {"toString": "x"}, "d": "clue", "h": []}),
        json!({"w": "x", "t": 1, "s": 1e300, "a": null, "d": "clue", "h": []}),
        json!({"w": "x", "t": 1, "s": 1, "a": null, "d": "clue", "h": ["\u{0}", 7]}),
        json!(null),
        json!([]),
    ] {
        browser.eval(&format!("(location.hash = '#game=' + btoa({}))", json!(game.to_string())));
        browser.wait_text("This link holds no game");
        assert_harmless(&browser, &game.to_string());
        browser.eval("(location.hash = '#watch')");
        browser.wait_text("Watch the model play itself");
    }
    browser.end(&["400 (Bad Request)"]);
}
