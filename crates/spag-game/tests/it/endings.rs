//! How games end, and what is counted of it.

use spag_game::{DRAW, Episode, INVALID, JudgeKind, Seat, Tally, Utterance, Verdict, judge_episode, taboo};

fn game(said: &[&str]) -> Episode {
    let mut episode = Episode::new("tiger", 5);
    for utterance in said {
        episode.push(episode.next_role(), *utterance);
    }
    episode
}

fn judged(said: &[&str]) -> Verdict {
    judge_episode(JudgeKind::Paper, &game(said)).unwrap()
}

#[test]
fn all_endings_are_distinguished() {
    for (said, expected, length) in [
        (&["Mine has stripes.", "I know the word! It is tiger!"][..], taboo::RIGHT_GUESS, 2),
        (&["Mine has stripes.", "I know the word! It is zebra!"], taboo::WRONG_GUESS, 2),
        (&["Mine has stripes.", "Maybe you mean the tiger."], taboo::SAID_UNKNOWINGLY, 2),
        (&["Hello.", "Well.", "My tiger has stripes."], taboo::BROKEN_RULE, 3),
        (&["Hello.", "Well."], taboo::TIE, 2),
        // Utterances after the deciding one are ignored.
        (&["A", "I know the word! It is zebra!", "B", "tiger"], taboo::WRONG_GUESS, 2),
    ] {
        let verdict = judged(said);
        assert_eq!((verdict.ending, verdict.history_length), (expected, length), "{said:?}");
    }
}

#[test]
fn broken_rule_is_a_win_of_the_defender_that_earns_nothing() {
    let verdict = judged(&["My tiger has stripes."]);
    assert_eq!((verdict.winner(), verdict.rewarded_winner()), (Some(taboo::DEFENDER), None));
    let verdict = judged(&["It has stripes.", "I know the word! It is tiger!"]);
    assert_eq!((verdict.winner(), verdict.rewarded_winner()), (Some(taboo::DEFENDER), Some(taboo::DEFENDER)));
    let verdict = judged(&["Hello."]);
    assert_eq!((verdict.winner(), verdict.rewarded_winner()), (None, None));
}

#[test]
fn broken_rules_are_the_attackers_loss_and_ties_are_not_decided() {
    let mut tally = Tally::new(&taboo::LABELS);
    tally.failed = 3;
    for (ending, games) in taboo::LABELS.endings.iter().zip([3, 4, 1, 2, 4]) {
        (0..games).for_each(|_| tally.add(&Verdict::of(*ending, 3)));
    }
    assert_eq!((tally.games(), tally.decided(), tally.mean_turns()), (14, 10, Some(1.5)));
    assert_eq!((tally.wins(taboo::ATTACKER), tally.wins(taboo::DEFENDER)), (5, 5));
    assert_eq!((tally.ended(taboo::RIGHT_GUESS), tally.ended(taboo::BROKEN_RULE)), (3, 2));
    assert_eq!((tally.won_by_the_rules(), tally.ties(), tally.utterances()), (8, 4, 42));
    let both = Tally::sum(&taboo::LABELS, [&tally, &tally]);
    assert_eq!((both.wins(taboo::ATTACKER), both.decided(), both.failed, both.utterances()), (10, 20, 6, 84));
    assert_eq!(Tally::new(&taboo::LABELS).mean_turns(), None);
}

#[test]
fn early_guesses_are_the_defenders_first_utterance() {
    let mut tally = Tally::new(&taboo::LABELS);
    for (said, early) in [
        (&["It has stripes.", "I know the word! It is tiger!"][..], 1),
        (&["It has stripes.", "I know the word! It is zebra!"], 2),
        // Too late, no guess, decided before, and after the decision.
        (&["Hello.", "Well.", "It has stripes.", "I know the word! It is tiger!"], 2),
        (&["Hello.", "Maybe you mean the tiger."], 2),
        (&["My tiger has stripes.", "I know the word! It is tiger!"], 2),
        (&["Hello.", "Well."], 2),
    ] {
        tally.add(&judged(said));
        assert_eq!(tally.early_guesses(), early, "{said:?}");
    }
    assert_eq!(Tally::sum(&taboo::LABELS, [&tally, &tally]).early_guesses(), 4);
}

/// Of either game of a sum, in any order: what is counted of seats, of endings by name and by group, and the utterances.
#[test]
fn sums_count_what_their_games_do() {
    let (first, second) = (Seat::FIRST, Seat::SECOND);
    let labels = spag_game::game_labels("nim").unwrap();
    let taken = labels.endings[0];
    let game = |said: &[(Seat, bool)], verdict: &Verdict| {
        let mut tally = Tally::new(labels);
        let mut episode = Episode::new("", 0);
        for (seat, refused) in said {
            episode.push(*seat, "[0 1]");
            if *refused {
                episode.history.last_mut().unwrap().extra.insert(Utterance::REFUSAL.into(), "illegal".into());
            }
        }
        tally.add_game(&episode, verdict);
        tally
    };
    let games = [
        game(&[(first, true), (first, false), (second, false)], &Verdict::won_by(second, taken, 3)),
        game(&[(first, false), (second, true), (second, true), (second, true)], &Verdict::won_by(first, INVALID, 4)),
        // The utterance after the end does not count.
        game(&[(first, false), (second, true), (first, false)], &Verdict::won_by(first, INVALID, 2)),
        game(&[(first, true), (first, true)], &Verdict::won_by(second, INVALID, 2)),
        game(&[(first, false), (second, false), (first, false)], &Verdict::won_by(first, taken, 3)),
        // An ending that is not among the labels.
        game(&[(first, false), (second, false)], &Verdict::of(DRAW, 2)),
        game(&[(first, false), (second, false)], &Verdict::of(DRAW, 2)),
    ];
    for order in [[0, 1, 2, 3, 4, 5, 6], [6, 3, 0, 5, 2, 4, 1]] {
        let mut sum = Tally::sum(labels, order.map(|at| &games[at]));
        // Again, into counts that are not 0.
        games.iter().for_each(|game| sum.merge(game));
        assert_eq!((sum.labels(), sum.games(), sum.utterances()), (labels, 14, 2 * 18));
        assert_eq!(sum.mean_turns(), Some(18.0 / 2.0 / 7.0));
        assert_eq!([first, second].map(|seat| sum.utterances_of(seat)), [2 * 10, 2 * 8]);
        assert_eq!([first, second].map(|seat| sum.refused(seat)), [2 * 3, 2 * 4]);
        assert_eq!([first, second].map(|seat| sum.lost_by_refusals(seat)), [2, 2 * 2]);
        assert_eq!([first, second].map(|seat| sum.wins(seat)), [2 * 3, 2 * 2]);
        assert_eq!([first, second].map(|seat| sum.rewarded_wins(seat)), [2, 2]);
        assert_eq!([taken, INVALID, DRAW, taboo::TIE].map(|ending| sum.ended(ending)), [4, 6, 4, 0]);
        assert_eq!(["invalid", "draw", "tied game"].map(|outcome| sum.with_outcome(outcome)), [6, 4, 0]);
        assert_eq!((sum.ties(), sum.decided(), sum.broken_rules(), sum.won_by_the_rules()), (4, 10, 6, 4));
        assert_eq!([taken, INVALID, DRAW].map(|ending| sum.ended_by_first_reply(ending)), [0, 4, 4]);
        assert_eq!((sum.early_guesses(), sum.failed), (0, 0));
    }
}
