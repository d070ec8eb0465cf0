//! Properties of all inputs.

use std::cell::Cell;

use proptest::prelude::*;
use spag_game::taboo::Outcome;
use spag_game::taboo::Rules;
use spag_game::{
    AfterDecision, Episode, EpisodeReader, FinishedGame, GameSpec, JudgeKind, PlayConfig, PromptSet, Referee,
    ScriptedPolicy, Seats, TurnRequest, judge_episode, play_games, pluralize, read_episodes, taboo, word_forms,
};

const KINDS: [JudgeKind; 2] = [JudgeKind::Paper, JudgeKind::WholeWord];

/// Texts that are likely to decide a game: parts of predictions, forms of the word, anything.
fn utterance(word: &str) -> impl Strategy<Value = String> + use<> {
    let forms = word_forms(word);
    let piece = prop_oneof![
        Just("I know the word! It".to_owned()),
        Just(" is ".to_owned()),
        prop::sample::select(forms),
        "\\PC{0,6}",
        "[a-zé'\"` \n!.]{0,9}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "[A-Zé][a-z]{2,6}", "[a-z]{1,5}[ '-][a-z]{1,5}", "\\PC{1,5}"]
        .prop_filter("a target word has to hold something", |word| !word.trim().is_empty())
}

fn game() -> impl Strategy<Value = (String, Vec<String>)> {
    word().prop_flat_map(|word| {
        let talk = prop::collection::vec(utterance(&word), 0..9);
        (Just(word), talk)
    })
}

fn episode() -> impl Strategy<Value = Episode> {
    let extra = prop::collection::btree_map("[x-z]{1,3}", any::<f64>().prop_filter("JSON", |f| f.is_finite()), 0..4);
    (game(), 0usize..9, extra).prop_map(|((word, talk), max_turns, extra)| {
        let mut episode = Episode::new(word, max_turns);
        for text in talk {
            episode.push(episode.next_role(), text);
        }
        episode.extra.extend(extra.into_iter().map(|(key, value)| (key, value.into())));
        episode
    })
}

proptest! {
    #[test]
    fn last_counted_utterance_decides(episode in episode()) {
        for kind in KINDS {
            let verdict = judge_episode(kind, &episode).unwrap();
            prop_assert!(verdict.history_length <= episode.history.len());
            let referee = Referee::new(kind, &episode.item).unwrap();
            let rulings: Vec<_> = episode.history.iter().map(|u| referee.rule(u.seat, &u.content)).collect();
            let counted = &rulings[..verdict.history_length];
            let before = counted.split_last().map_or(&[][..], |(_, before)| before);
            prop_assert!(before.iter().all(Option::is_none));
            let last = counted.last().copied().flatten();
            prop_assert_eq!(Outcome::from(verdict), last.unwrap_or(Outcome::Tie));
        }
    }

    #[test]
    fn whole_word_rulings_imply_paper_rulings(word in word(), texts in prop::collection::vec("\\PC{0,30}", 4)) {
        let [paper, whole] = KINDS.map(|kind| Referee::new(kind, &word).unwrap());
        for text in texts {
            for role in [taboo::ATTACKER, taboo::DEFENDER] {
                if whole.rule(role, &text).is_some() {
                    prop_assert!(paper.rule(role, &text).is_some());
                }
            }
        }
    }

    #[test]
    fn verdict_while_playing_equals_verdict_afterwards((word, talk) in game(), max_turns in 1usize..5) {
        let mut verdicts = Vec::new();
        for after_decision in [AfterDecision::Stop, AfterDecision::PlayOn] {
            let lines = talk.clone();
            let mut player = ScriptedPolicy::new(move |turn: &TurnRequest<'_>| {
                lines.get(turn.episode.history.len()).cloned().unwrap_or_default()
            });
            let config = PlayConfig { games_in_flight: 3, ..PlayConfig::default() };
            let (prompts, rules) = (PromptSet::default(), Rules { after_decision, ..Rules::default() });
            let spec = GameSpec { number: 0, item: word.clone(), max_turns, seed: 0 , sampling_seed: None};
            let played = Cell::new(None);
            play_games(&rules.game(&prompts), [spec], Seats::SelfPlay(&mut player), &config, &mut |game: FinishedGame| {
                played.set(Some(game));
                Ok(())
            }).unwrap();
            let game = played.into_inner().unwrap();
            prop_assert_eq!(game.verdict, judge_episode(rules.judge, &game.episode).unwrap());
            verdicts.push(game.verdict);
        }
        prop_assert_eq!(verdicts[0], verdicts[1]);
    }

    #[test]
    fn episodes_survive_a_round_trip_in_both_layouts(episodes in prop::collection::vec(episode(), 0..5)) {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("episodes");
        let lines: Vec<String> = episodes.iter().map(|e| serde_json::to_string(e).unwrap()).collect();
        let list = serde_json::to_string_pretty(&episodes).unwrap();
        for text in [list, format!("[{}]", lines.join(" ,")), lines.join("\n")] {
            std::fs::write(&path, text).unwrap();
            prop_assert_eq!(&read_episodes(&path).unwrap(), &episodes);
            let rows: Vec<usize> = EpisodeReader::open(&path).unwrap().map(|row| row.unwrap().0).collect();
            prop_assert_eq!(rows, (1..=episodes.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn reader_does_not_panic(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        "[\\[\\]{}\",:\\\\ 0-9aN\n]{0,40}".prop_map(String::into_bytes),
    ]) {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("episodes");
        std::fs::write(&path, bytes).unwrap();
        match EpisodeReader::open(&path) {
            Ok(rows) => {
                for error in rows.filter_map(Result::err) {
                    prop_assert!(error.to_string().contains("episodes: row "));
                }
            }
            Err(error) => prop_assert!(error.to_string().contains("episodes: this file is ")),
        }
    }

    #[test]
    fn pluralize_does_not_panic(word in "[a-z]{1,12}", text in "\\PC{0,20}") {
        prop_assert!(!pluralize(&word).is_empty());
        prop_assert_eq!(word_forms(&word).len(), 16);
        let _ = (pluralize(&text), word_forms(&text));
    }
}
