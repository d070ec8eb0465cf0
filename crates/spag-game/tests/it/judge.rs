//! The paper's judge against the reference implementation's verdicts on 3,000 episodes, and both judges on hard texts.

use spag_game::taboo::Outcome;
use spag_game::{Episode, EpisodeReader, JudgeKind, Referee, Seat, judge_episode, taboo};
use spag_tests::fixture;

fn rule(kind: JudgeKind, word: &str, role: Seat, text: &str) -> Option<Outcome> {
    Referee::new(kind, word).unwrap().rule(role, text)
}

#[test]
fn verdicts_equal_the_references() {
    let mut rows = 0;
    for row in EpisodeReader::open(fixture("judge_cases.jsonl")).unwrap() {
        let (row, episode) = row.unwrap();
        let want = serde_json::json!({
            "outcome": episode.extra["outcome"], "history_length": episode.extra["history_length"],
        });
        let verdict = judge_episode(JudgeKind::Paper, &episode).unwrap();
        assert_eq!(serde_json::to_value(verdict).unwrap(), want, "row {row}: {episode:?}");
        rows += 1;
    }
    assert_eq!(rows, 3000);
}

#[test]
fn whole_word_judge_ignores_parts_of_words() {
    for (text, by_paper, by_whole) in [
        ("Let us start.", true, false),
        ("I like art!", true, true),
        ("The arts are fine.", true, true),
        ("'art'", true, true),
        ("It is art's end.", true, true),
        ("state_of_the_art_thing", true, true),
        ("partarts artists", true, false),
        ("partart art", true, true),
        ("Nothing of the kind.", false, false),
    ] {
        let outcome = |hit: bool| hit.then_some(Outcome::AttackerWins);
        assert_eq!(rule(JudgeKind::Paper, "art", taboo::DEFENDER, text), outcome(by_paper), "{text}");
        assert_eq!(rule(JudgeKind::WholeWord, "art", taboo::DEFENDER, text), outcome(by_whole), "{text}");
    }
    for (guess, by_paper, by_whole) in [
        ("I know the word! It is art.", true, true),
        ("I know the word! It is `art`!", true, true),
        ("I know the word! It is artist", true, false),
        ("I know the word! It is smart", true, false),
        ("I know the word! It is a start, I know the word! It is art", true, true),
        ("I know the word! It 1234567\"art\"", true, true),
        ("I know the word! It 12345678art", false, false),
        ("I know the word! It is something else: art", false, false),
    ] {
        let outcome = |right: bool| Some(if right { Outcome::DefenderWins } else { Outcome::AttackerWins });
        assert_eq!(rule(JudgeKind::Paper, "art", taboo::DEFENDER, guess), outcome(by_paper), "{guess}");
        assert_eq!(rule(JudgeKind::WholeWord, "art", taboo::DEFENDER, guess), outcome(by_whole), "{guess}");
    }
    // A word that ends in punctuation is whole before letters, too.
    assert_eq!(rule(JudgeKind::WholeWord, "c++", taboo::ATTACKER, "in c++11"), Some(Outcome::AttackerBreaksRules));
}

#[test]
fn special_characters_of_a_word_are_plain_text() {
    for word in ["c++", "(", "[a-", "a.b", "\\", "*", "$^", "{word}", "a|b"] {
        let say = |role, text: &str| rule(JudgeKind::Paper, word, role, text);
        assert_eq!(
            say(taboo::DEFENDER, &format!("I know the word! It is {word}")),
            Some(Outcome::DefenderWins),
            "{word}"
        );
        assert_eq!(say(taboo::ATTACKER, &format!("say {word} now")), Some(Outcome::AttackerBreaksRules), "{word}");
        assert_eq!(say(taboo::DEFENDER, "nothing"), None, "{word}");
    }
    assert_eq!(rule(JudgeKind::Paper, "a.b", taboo::DEFENDER, "axb"), None);
    for word in ["", "  ", "\n"] {
        assert!(Referee::new(JudgeKind::Paper, word).is_err());
    }
}

#[test]
fn letters_of_all_languages_are_lower_cased() {
    let breaks = Some(Outcome::AttackerBreaksRules);
    assert_eq!(rule(JudgeKind::Paper, "Straße", taboo::ATTACKER, "DIE STRASSE"), None);
    assert_eq!(rule(JudgeKind::Paper, "ÉCOLE", taboo::ATTACKER, "l'école"), breaks);
    // The last letter is a final sigma in the word and in the text.
    assert_eq!(rule(JudgeKind::Paper, "ΣΟΦΌΣ", taboo::ATTACKER, "Ο ΣΟΦΌΣ ΕΊΠΕ"), breaks);
    assert_eq!(rule(JudgeKind::Paper, "İ", taboo::ATTACKER, "i\u{307}"), breaks);
}

#[test]
fn utterances_after_the_last_turn_do_not_count() {
    let mut episode = Episode::new("tea", 1);
    episode.push(taboo::ATTACKER, "Hello.");
    episode.push(taboo::DEFENDER, "Hello.");
    episode.push(taboo::ATTACKER, "tea");
    let verdict = judge_episode(JudgeKind::Paper, &episode).unwrap();
    assert_eq!((Outcome::from(verdict), verdict.history_length), (Outcome::Tie, 2));
    episode.max_turns = 2;
    let verdict = judge_episode(JudgeKind::Paper, &episode).unwrap();
    assert_eq!((Outcome::from(verdict), verdict.history_length), (Outcome::AttackerBreaksRules, 3));
    episode.push(taboo::ATTACKER, "Hello again.");
    let message = judge_episode(JudgeKind::Paper, &episode).unwrap_err().to_string();
    assert_eq!(message, "utterance 4 is the attacker's, but it was the defender's turn");
}

#[test]
fn outcomes_and_judges_have_the_names_of_the_reference() {
    for outcome in Outcome::ALL {
        assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.to_string());
    }
    for kind in [JudgeKind::Paper, JudgeKind::WholeWord] {
        assert_eq!(kind.to_string().parse::<JudgeKind>().unwrap(), kind);
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
    }
    assert!("papre".parse::<JudgeKind>().unwrap_err().to_string().contains("whole-word"));
}
