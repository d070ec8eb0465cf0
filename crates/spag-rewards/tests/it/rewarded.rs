//! Games with rewards, as estimators read them, and what is counted of credited ones.

use spag_game::taboo::{self, ATTACKER, DEFENDER, LABELS};
use spag_game::{Episode, Verdict};
use spag_rewards::{
    DecayedWinner, EstimatorSettings, OutcomeRewards, Rae, RewardNorm, RewardedGame, Signed, SignedSeats, Turn,
    credit_games,
};

fn game(verdict: &Verdict) -> RewardedGame {
    let turns = [ATTACKER, DEFENDER, ATTACKER].map(|seat| Turn { seat, tokens: 4 });
    RewardedGame::new(&LABELS, "apple", verdict, turns.to_vec(), &OutcomeRewards::default())
}

#[test]
fn game_against_an_opponent_is_the_learners() {
    let whole = game(&Verdict::of(taboo::RIGHT_GUESS, 3));
    let learned = whole.clone().against_opponent(DEFENDER);
    assert_eq!((learned.key.as_str(), learned.learner), ("apple (defender)", Some(DEFENDER)));
    assert_eq!(learned.turns.iter().map(|turn| turn.tokens).collect::<Vec<_>>(), [0, 4, 0]);
    assert_eq!((&learned.kind, learned.rewards, learned.winner), (&whole.kind, whole.rewards, whole.winner));
    // Only the learner's baseline moves, from 0 by half of its reward.
    for (game, baselines) in [(whole, [-0.5, 0.5]), (learned, [0.0, 0.5])] {
        for settings in [
            EstimatorSettings::Rae(Rae { decay: 0.5, ..Rae::default() }),
            EstimatorSettings::Signed(Signed { decay: 0.5, ..Signed::default() }),
        ] {
            let mut estimator = settings.build();
            assert!(estimator.state().baselines.is_empty());
            estimator.advantages(std::slice::from_ref(&game)).unwrap();
            assert_eq!(estimator.state().baselines["taboo"], baselines, "{settings:?}");
        }
    }
}

#[test]
fn scores_compare_the_rewards_of_the_seats() {
    for (ending, scores) in [
        (taboo::RIGHT_GUESS, [0.0, 1.0]),
        (taboo::WRONG_GUESS, [1.0, 0.0]),
        (taboo::TIE, [0.5, 0.5]),
        // −1.5 against 0.5: also a broken rule has a winner.
        (taboo::BROKEN_RULE, [0.0, 1.0]),
    ] {
        let game = game(&Verdict::of(ending, 3));
        assert_eq!(([ATTACKER, DEFENDER].map(|seat| game.score(seat)), game.score_of_first()), (scores, scores[0]));
    }
}

fn episode() -> Episode {
    let mut episode = Episode::new("apple", 5);
    for (at, text) in ["a fruit", "a pear?", "red", "I know the word! It is plum!"].into_iter().enumerate() {
        episode.push(LABELS.seat_at(at), text);
    }
    episode
}

#[test]
fn summary_counts_games_samples_and_weights() {
    let episode = episode();
    let endings = [taboo::RIGHT_GUESS, taboo::WRONG_GUESS, taboo::WRONG_GUESS, taboo::TIE, taboo::BROKEN_RULE];
    let games: Vec<_> = endings.into_iter().map(|ending| (&episode, Verdict::of(ending, 3))).collect();
    let rule = DecayedWinner { decay_weight: 0.8, norm: RewardNorm::Sum };
    let credited = credit_games(&spag_game::Taboo::default(), &games, &rule, 0).unwrap();
    let summary = &credited.summary;
    // The attacker speaks twice in three utterances, the defender once.
    assert_eq!((summary.episodes(), summary.decided(), summary.samples()), (5, 3, 5));
    assert_eq!([ATTACKER, DEFENDER].map(|seat| summary.samples_of(seat)), [4, 1]);
    assert_eq!([ATTACKER, DEFENDER].map(|seat| summary.weight(seat)), [0.75, 1.5]);
    assert_eq!(credited.verdicts, games.iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>());
    let mut with_demonstrations = summary.clone();
    with_demonstrations.sft_samples = 7;
    let printed = with_demonstrations.to_string();
    for line in [
        "5 episodes, 3 decided",
        "  attacker wins                     2   40.0%",
        "  tied game                         1   20.0%",
        "12 samples",
        "  of winning attackers              4  weight 0.7500",
        "  of winning defenders              1  weight 1.5000",
        "  demonstrations                    7  weight 1.0000",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
    }
}

/// Without the counts of other games, wins and losses are shared as they are.
#[test]
fn signed_rewards_of_one_game_have_the_sign_of_its_outcome() {
    use spag_rewards::Credit;
    let (episode, rule) = (episode(), SignedSeats { decay_weight: 0.5, norm: RewardNorm::Mean });
    let rewards = |ending, length| rule.rewards(&episode.view(), &Verdict::of(ending, length));
    let two = [2.0 / 3.0, 4.0 / 3.0];
    let won = [(0, two[0]), (1, -two[0]), (2, two[1]), (3, -two[1])];
    let found = rewards(taboo::WRONG_GUESS, 4);
    assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(found.iter().zip(won).all(|((_, found), (_, want))| (found - want).abs() < 1e-12), "{found:?}");
    assert_eq!(rewards(taboo::RIGHT_GUESS, 2), [(0, -1.0), (1, 1.0)]);
    assert!(rewards(taboo::TIE, 4).is_empty());
    assert!(!rule.has_samples(&Verdict::of(taboo::BROKEN_RULE, 1)) && rule.has_samples(&Verdict::of(taboo::TIE, 4)));
    // Of equal wins the means are 0.
    let mut games = spag_game::Tally::new(&LABELS);
    [taboo::WRONG_GUESS, taboo::RIGHT_GUESS].iter().for_each(|ending| games.add(&Verdict::of(*ending, 4)));
    let counted = rule.counted(&games).unwrap();
    assert_eq!(counted.rewards(&episode.view(), &Verdict::of(taboo::RIGHT_GUESS, 2)), [(0, -1.0), (1, 1.0)]);
    assert!(!counted.has_samples(&Verdict::of(taboo::BROKEN_RULE, 1)));
}
