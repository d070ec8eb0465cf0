//! Judging takes time linear in the length of words and utterances, whatever they repeat.

use std::time::{Duration, Instant};

use spag_game::taboo::Outcome;
use spag_game::{JudgeKind, Referee, taboo, word_forms};

/// The limit of each call, in a debug build on a busy machine. A quadratic step takes minutes.
const LIMIT: Duration = Duration::from_secs(120);

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    assert!(started.elapsed() < LIMIT, "{what} took {:?}", started.elapsed());
    result
}

/// Words of many parts: stems, compounds, possessives, quotation marks, contractions, predictions.
fn words() -> Vec<String> {
    ["horse", "a-", "dog's", "'s", "'", "x ", "cannot", "..", "aab", "İ", "i know the word! it is "]
        .map(|part| part.repeat(20_000))
        .to_vec()
}

#[test]
fn long_words_are_judged_in_linear_time() {
    for word in words() {
        let name = word.chars().take(12).collect::<String>();
        assert!(timed(&format!("forms of {name}"), || word_forms(&word)).len() >= 12, "{name}");
        for kind in [JudgeKind::Paper, JudgeKind::WholeWord] {
            let referee = timed(&name, || Referee::new(kind, &word)).unwrap();
            for text in [&word[..word.len() / 2], word.trim_end(), &format!("I know the word! It is {word}")] {
                for role in [taboo::ATTACKER, taboo::DEFENDER] {
                    timed(&format!("{kind} {name}"), || referee.rule(role, text));
                }
            }
        }
    }
}

#[test]
fn many_predictions_of_a_long_word_are_judged_in_linear_time() {
    let part = "i know the word! it ";
    // Every prediction begins like the word, and none is complete.
    let word = format!("{}x", part.repeat(60_000));
    let referee = Referee::new(JudgeKind::Paper, &word).unwrap();
    let said = part.repeat(120_000);
    assert_eq!(timed("wrong", || referee.rule(taboo::DEFENDER, &said)), Some(Outcome::AttackerWins));
    assert_eq!(timed("right", || referee.rule(taboo::DEFENDER, &format!("{said}{word}"))), Some(Outcome::DefenderWins));
    let quoted = format!("i know the word! it is `{word}`");
    assert_eq!(timed("quoted", || referee.rule(taboo::DEFENDER, &quoted)), Some(Outcome::DefenderWins));
}

#[test]
fn short_words_in_long_utterances_are_judged_in_linear_time() {
    for kind in [JudgeKind::Paper, JudgeKind::WholeWord] {
        let referee = Referee::new(kind, "art").unwrap();
        for part in ["start ", "ar ", "I know the word! It is ar ", "\u{301}", "'"] {
            timed(part, || referee.rule(taboo::DEFENDER, &part.repeat(200_000)));
        }
    }
}
