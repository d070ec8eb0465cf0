//! The paper's judge against the reference implementation's verdicts on 3,000 episodes.

use std::path::Path;

use spag_game::{EpisodeReader, JudgeKind, Outcome, Referee, Role, Verdict, judge_episode};

#[test]
fn every_fixture_is_judged_as_the_reference_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/judge_cases.jsonl");
    let mut rows = 0;
    for row in EpisodeReader::open(&path).unwrap() {
        let (row, episode) = row.unwrap();
        let want: Verdict = serde_json::from_value(serde_json::json!({
            "outcome": episode.extra["outcome"], "history_length": episode.extra["history_length"],
        }))
        .unwrap();
        assert_eq!(judge_episode(JudgeKind::Paper, &episode).unwrap(), want, "row {row}: {episode:?}");
        rows += 1;
    }
    assert_eq!(rows, 3000);
}

#[test]
fn whole_words_only() {
    let paper = Referee::new(JudgeKind::Paper, "art").unwrap();
    let whole = Referee::new(JudgeKind::WholeWord, "art").unwrap();
    for (text, by_paper, by_whole) in [
        ("Let us start.", true, false),
        ("I like art!", true, true),
        ("The arts are fine.", true, true),
        ("'art'", true, true),
        ("Nothing of the kind.", false, false),
    ] {
        let outcome = |hit: bool| hit.then_some(Outcome::AttackerWins);
        assert_eq!(paper.rule(Role::Defender, text), outcome(by_paper), "{text}");
        assert_eq!(whole.rule(Role::Defender, text), outcome(by_whole), "{text}");
    }
    let guess = "I know the word! It is artist";
    assert_eq!(paper.rule(Role::Defender, guess), Some(Outcome::DefenderWins));
    assert_eq!(whole.rule(Role::Defender, guess), Some(Outcome::AttackerWins));
}

#[test]
fn special_characters_in_a_word_are_plain_text() {
    for word in ["c++", "(", "[a-", "a.b", "\\", "*", "$^"] {
        let referee = Referee::new(JudgeKind::Paper, word).unwrap();
        assert_eq!(
            referee.rule(Role::Defender, &format!("I know the word! It is {word}")),
            Some(Outcome::DefenderWins)
        );
        assert_eq!(referee.rule(Role::Attacker, &format!("say {word} now")), Some(Outcome::AttackerBreaksRules));
        assert_eq!(referee.rule(Role::Defender, "nothing"), None);
    }
    assert!(Referee::new(JudgeKind::Paper, "  ").is_err());
}
