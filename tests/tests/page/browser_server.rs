//! The page while its server stops, is full, ends, or needs a key.

use std::io::Read;
use std::time::Duration;

use spag_tests::{reserve_port, send_signal, wait_until};
use thirtyfour::Key;

use crate::browser::Browser;
use crate::browser_games::{MODELS, begin};
use crate::models::{After, Cast, scripted};
use crate::routes::{endless, game};

#[test]
#[ignore = "needs Chromium"]
fn game_goes_on_after_the_server_was_stopped() {
    let cast = Cast::new(&MODELS[..1]);
    let endless = cast.folder.path().join("endless");
    spag_tests::long_model(&endless, 65_536);
    let config = std::fs::read(endless.join("config.json")).unwrap();
    scripted(&endless, "Tell me more", After::Repeats);
    std::fs::write(endless.join("config.json"), config).unwrap();
    let endless = format!("endless={}", endless.display());
    let long = ["--model", &endless, "--max_new_tokens", "16000", "--kv_cache_gib", "1"];
    let (port, cast) = (reserve_port(), cast.with(&long));
    let server = cast.serve_on(port);
    let browser = Browser::start();
    browser.open(&server.url("/"));
    begin(&browser, "attacker", "clue");
    browser.say("It has claws.");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 2");
    drop(server);
    browser.say("It hunts.");
    browser.wait_text("The server does not answer");
    browser.press("Try again");
    browser.wait_text("The server does not answer");
    let server = cast.serve_on(port);
    browser.press("Try again");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 4");
    assert_eq!(browser.texts(".said .text"), ["It has claws.", "It has stripes", "It hunts.", "It has stripes"]);

    // In the middle of an utterance.
    browser.press("Give up");
    browser.press("Change seats");
    begin(&browser, "attacker", "endless");
    browser.say("It has claws.");
    browser.wait("document.querySelector('.streaming .text')?.textContent.includes('more Tell')");
    drop(server);
    browser.wait_text("Nothing is lost".to_lowercase().as_str());
    assert_eq!(browser.texts(".said .text"), ["It has claws."], "half an utterance is none");
    let _server = cast.serve_on(port);
    browser.press("Try again");
    browser.wait("document.querySelector('.streaming .text')?.textContent.includes('more Tell')");
    browser.press_moving("Give up");
    browser.end(&["net::ERR_"]);
}

#[test]
#[ignore = "needs Chromium"]
fn key_is_asked_for_and_kept_in_the_tab() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "a-key\n").unwrap();
    let server = Cast::new(&MODELS[..1]).with(&["--api_key_file", keys.to_str().unwrap()]).serve();
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.wait("document.getElementById('key-dialog')?.open");
    browser.press("Cancel");
    browser.wait_text("Without a key this server answers nothing");
    browser.press("Try again");
    browser.type_into("#key", "wrong");
    browser.keys(Key::Enter);
    browser.wait_text("The server does not know this key");
    browser.type_into("#key", "a-key");
    browser.keys(Key::Enter);
    browser.press("Start a game");
    browser.say("It has claws.");
    browser.wait("document.querySelectorAll('.said:not(.streaming)').length === 2");
    browser.refresh();
    browser.wait("document.querySelectorAll('.said').length === 2");
    // The key was kept: it was not asked for again.
    assert_eq!(browser.eval("document.getElementById('key-dialog') === null"), true);
    browser.end(&["401 (Unauthorized)"]);
}

#[test]
#[ignore = "needs Chromium"]
fn full_queue_and_an_ending_server_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = endless(folder.path());
    let browser = Browser::start();
    browser.open(&server.url("/"));
    browser.press("Start a game");
    browser.wait("document.querySelector('#say:not([readonly])')");
    let asked = game(Some("m"), None, &[]);
    let mut begun = [0; 512];
    let mut stream = server.send("/page/turn", &asked);
    assert!(stream.read(&mut begun).unwrap() > 0);
    browser.say("Hm?");
    browser.wait_text("The server has too much to do now");
    drop(stream);
    browser.press("Try again");
    browser.wait("document.querySelector('.streaming .text')?.textContent.includes('more Tell')");
    browser.press_moving("New word");
    browser.press("Leave it");
    browser.wait("document.querySelector('#say:not([readonly])')");
    wait_until("the place is free", Duration::from_secs(300), || server.metric("spag_sequences_running", "") == 0.0);
    // The server ends when this utterance has.
    let mut stream = server.send("/page/turn", &asked);
    assert!(stream.read(&mut begun).unwrap() > 0);
    send_signal(server.process.id(), "TERM");
    browser.say("Hm?");
    browser.wait("document.querySelector('[role=alert]')");
    let told = browser.text("[role=alert]");
    assert!(told.contains("The server takes no requests now") || told.contains("The server does not answer"), "{told}");
    assert_eq!(browser.texts(".said .text"), ["Hm?"]);
    drop(stream);
    assert!(server.process.wait_for(Duration::from_secs(300)).unwrap().success());
    browser.end(&["429 (Too Many Requests)", "503 (Service Unavailable)", "net::ERR_"]);
}
