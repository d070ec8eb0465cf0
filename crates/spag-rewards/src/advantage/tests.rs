//! Every estimator on small games by hand, and what holds for all.

use proptest::prelude::*;
use spag_game::taboo::{self, ATTACKER, DEFENDER, LABELS};
use spag_game::{SEATS, Verdict};

use super::*;
use crate::RewardNorm;

/// A game in which the seats alternate, with the tokens of each turn.
fn game(kind: &str, key: &str, rewards: [f64; SEATS], tokens: &[usize]) -> RewardedGame {
    let turns = tokens.iter().enumerate().map(|(at, tokens)| Turn { seat: LABELS.seat_at(at), tokens: *tokens });
    let winner = LABELS.seats.into_iter().find(|seat| rewards[seat.index()] > 0.0);
    RewardedGame { kind: kind.into(), key: key.into(), rewards, winner, learner: None, turns: turns.collect() }
}

const WON: [f64; SEATS] = [1.0, -1.0];
const LOST: [f64; SEATS] = [-1.0, 1.0];
const TIED: [f64; SEATS] = [0.0, 0.0];

fn advantages(settings: EstimatorSettings, games: &[RewardedGame]) -> Vec<Vec<Option<f64>>> {
    settings.build().advantages(games).unwrap().games().to_vec()
}

fn assert_near(got: &[Vec<Option<f64>>], want: &[Vec<Option<f64>>]) {
    let near = |got: &Option<f64>, want: &Option<f64>| match (got, want) {
        (Some(got), Some(want)) => (got - want).abs() < 1e-7,
        (got, want) => got == want,
    };
    let all_near = got.iter().flatten().zip(want.iter().flatten()).all(|(got, want)| near(got, want));
    let same_shape = got.iter().map(Vec::len).eq(want.iter().map(Vec::len));
    assert!(all_near && same_shape, "{got:?} against {want:?}");
}

#[test]
fn rae_by_hand() {
    let rae = EstimatorSettings::Rae(Rae { decay: 0.5, gamma: 0.5 });
    let games = [
        game("taboo", "a", WON, &[3, 3, 3]),
        game("taboo", "b", WON, &[3, 3]),
        // Another kind has baselines of its own.
        game("nim", "a", WON, &[3]),
        game("taboo", "c", TIED, &[3]),
    ];
    // Baselines of taboo before each game: 0, 1/2, 3/4 and their negatives.
    let want =
        [vec![Some(0.25), Some(-0.5), Some(1.0)], vec![Some(0.25), Some(-0.5)], vec![Some(1.0)], vec![Some(-0.75)]];
    let mut estimator = rae.build();
    assert_eq!(estimator.advantages(&games).unwrap().games(), want);
    assert_eq!(estimator.state().baselines["taboo"], [0.375, -0.375]);
    // An advantage of 0 is left out, and so is an utterance that is not learned.
    assert_eq!(advantages(rae, &[game("taboo", "a", TIED, &[3, 3])]), [[None, None]]);
    assert_eq!(advantages(rae, &[game("taboo", "a", WON, &[3, 0])]), [[Some(0.5), None]]);
}

#[test]
fn group_by_hand() {
    let games = [
        game("taboo", "a", WON, &[3, 3]),
        game("taboo", "a", LOST, &[3]),
        game("taboo", "a", WON, &[3]),
        game("taboo", "b", TIED, &[3, 0]),
        game("taboo", "b", TIED, &[3]),
    ];
    let plain = advantages(EstimatorSettings::Group(Group { deviation: Deviation::None }), &games);
    let third = 1.0 / 3.0;
    let of = |scale: f64| {
        let [win, loss] = [2.0 * third, -4.0 * third].map(|difference| Some(difference / scale));
        [vec![win, win.map(|x| -x)], vec![loss], vec![win], vec![Some(0.0), None], vec![Some(0.0)]]
    };
    assert_near(&plain, &of(1.0));
    // The unbiased variance of 1, −1, 1 is (4 + 16 + 4) / 9 / 2 = 4/3.
    let divided = advantages(EstimatorSettings::Group(Group { deviation: Deviation::Unbiased }), &games);
    assert_near(&divided, &of((4.0f64 / 3.0).sqrt() + 1e-6));
    let lone = EstimatorSettings::Group(Group::default()).build().advantages(&games[2..]).unwrap_err();
    assert!(lone.to_string().contains("taboo") && lone.to_string().contains("\"a\""), "{lone}");
}

#[test]
fn winner_and_signed_by_hand() {
    let games =
        [game("taboo", "a", WON, &[3, 3, 3, 3]), game("taboo", "b", LOST, &[3, 3]), game("taboo", "c", TIED, &[3])];
    let winner = Winner { decay_weight: 0.5, norm: RewardNorm::Sum };
    let third = 1.0 / 3.0;
    let want = [vec![Some(third), None, Some(2.0 * third), None], vec![None, Some(1.0)], vec![None]];
    assert_near(&advantages(EstimatorSettings::Winner(winner), &games), &want);
    let mean = Winner { norm: RewardNorm::Mean, ..winner };
    let got = advantages(EstimatorSettings::Winner(mean), &games[..1]);
    assert_near(&got, &[vec![Some(2.0 * third), None, Some(4.0 * third), None]]);
    // The second game's baselines are 1/2 and −1/2, the third's −1/4 and 1/4.
    let signed = EstimatorSettings::Signed(Signed { decay: 0.5, decay_weight: 0.5, norm: RewardNorm::Sum });
    let want = [
        vec![Some(third), Some(-third), Some(2.0 * third), Some(-2.0 * third)],
        vec![Some(-1.5), Some(1.5)],
        vec![Some(0.25)],
    ];
    assert_near(&advantages(signed, &games), &want);
}

/// A winner's credit is that of the rule for files.
#[test]
fn winner_has_the_credit_of_the_rule() {
    use spag_game::{Episode, Verdict};

    use crate::{Credit, DecayedWinner};
    let mut episode = Episode::new("apple", 5);
    for _ in 0..3 {
        episode.push(ATTACKER, "a");
        episode.push(DEFENDER, "b");
    }
    for verdict in
        [Verdict::of(taboo::RIGHT_GUESS, 6), Verdict::of(taboo::WRONG_GUESS, 4), Verdict::of(taboo::BROKEN_RULE, 5)]
    {
        let turns = episode.history.iter().map(|said| Turn { seat: said.seat, tokens: 2 }).collect();
        let game = RewardedGame::new(&LABELS, "apple", &verdict, turns, &OutcomeRewards::default());
        let rule = DecayedWinner { decay_weight: 0.8, norm: RewardNorm::Sum };
        let mut want = vec![None; verdict.history_length];
        rule.rewards(&episode.view(), &verdict).into_iter().for_each(|(at, reward)| want[at] = Some(reward));
        assert_eq!(advantages(EstimatorSettings::Winner(Winner::default()), &[game]), [want]);
    }
}

#[test]
fn turn_baseline_by_hand() {
    // The attacker speaks twice in the first game and once in the second: 2 + 2 and 4 tokens; the defender once, 1 token.
    let games = [game("taboo", "a", WON, &[2, 1, 2]), game("taboo", "b", LOST, &[4])];
    // Normalised first. Rewards of turns: attacker 0, 1 | −1 with mean 0; defender −1 with mean −1.
    // Whitened over 9 tokens: variance (0 + 1 + 1 + 0) / 8 = 1/4, so 0, 2 | −2; 0.
    // Returns: attacker 2, 2 | −2; defender 0. Distinct with 0: {2, −2, 0} with mean 0; {0}.
    // Whitened over 9 tokens: mean (4·2 + 4·−2 + 0) / 9 = 0, variance (16 + 16) / 8 = 4, so 1, 1 | −1; 0.
    let first = EstimatorSettings::TurnBaseline(TurnBaseline::default());
    assert_near(&advantages(first, &games), &[vec![Some(1.0), Some(0.0), Some(1.0)], vec![Some(-1.0)]]);
    // Summed first. Returns: attacker 1, 1 | −1 with mean 1/3; defender −1 with mean −1. So 2/3, 2/3 | −4/3; 0.
    // Whitened over 9 tokens: mean (4·2/3 − 4·4/3) / 9 = −8/27; squares 4·(26/27)² + 4·(28/27)² + (8/27)² = 5904/729.
    let sum = EstimatorSettings::TurnBaseline(TurnBaseline { order: NormaliseOrder::SumFirst, gamma: 1.0 });
    let deviation = (5904.0f64 / 729.0 / 8.0 + 1e-8).sqrt();
    let [win, none, loss] = [26.0, 8.0, -28.0].map(|x| Some(x / 27.0 / deviation));
    assert_near(&advantages(sum, &games), &[vec![win, none, win], vec![loss]]);
    // With γ = 1/2 the first turn's return is half: 1/2, 1 | −1 with mean 1/6.
    let half = EstimatorSettings::TurnBaseline(TurnBaseline { order: NormaliseOrder::SumFirst, gamma: 0.5 });
    let centred = [1.0 / 3.0, 0.0, 5.0 / 6.0, -7.0 / 6.0];
    let tokens = [2.0, 1.0, 2.0, 4.0];
    let mean = centred.iter().zip(tokens).map(|(x, n)| n * x).sum::<f64>() / 9.0;
    let squares: f64 = centred.iter().zip(tokens).map(|(x, n)| n * (x - mean) * (x - mean)).sum();
    let [a, b, c, d] = centred.map(|x| Some((x - mean) / (squares / 8.0 + 1e-8).sqrt()));
    assert_near(&advantages(half, &games), &[vec![a, b, c], vec![d]]);
}

/// The distinct returns of a role, of which 0 is one, have another mean than its turns.
#[test]
fn turn_baseline_subtracts_the_mean_of_distinct_returns() {
    // Two wins and a loss of one turn each. Rewards minus their mean 1/3: 2/3, 2/3, −4/3; over 3 tokens the variance is
    // (24/9) / 2 = 4/3. Distinct: {2/3, −4/3, 0} with mean −2/9, before the division. So 8/9, 8/9, −10/9 up to the scale,
    // whitened: 2/3, 2/3, −4/3 over √(4/3).
    let games = [WON, WON, LOST].map(|rewards| game("taboo", "a", rewards, &[1]));
    let settings = EstimatorSettings::TurnBaseline(TurnBaseline::default());
    let scale = (4.0f64 / 3.0).sqrt();
    let want = [2.0 / 3.0, 2.0 / 3.0, -4.0 / 3.0].map(|x| vec![Some(x / scale)]);
    assert_near(&advantages(settings, &games), &want);
    // With the other role in the batch the mean of distinct values does not cancel: it shifts one role against the other.
    // Attacker: {1, −1, 0} with mean 0. Defender, who speaks in one won game only: reward −1 minus its mean: 0.
    let games = [game("taboo", "a", WON, &[1, 1]), game("taboo", "a", WON, &[1]), game("taboo", "a", LOST, &[1])];
    // Attacker: 2/3, 2/3, −4/3; over 4 tokens the variance is (24/9) / 3 = 8/9. Minus the mean −2/9 of distinct values, all
    // divided by s = √(8/9): 8/9, 8/9, −10/9; defender 0. Whitened: mean (6/9) / 4 = 1/6.
    let s = (8.0f64 / 9.0 + 1e-8).sqrt();
    let values = [8.0 / 9.0, 0.0, 8.0 / 9.0, -10.0 / 9.0].map(|x| x / s);
    let mean = values.iter().sum::<f64>() / 4.0;
    let deviation = (values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 3.0 + 1e-8).sqrt();
    let [a, b, c, d] = values.map(|x| Some((x - mean) / deviation));
    assert_near(&advantages(settings, &games), &[vec![a, b], vec![c], vec![d]]);
}

#[test]
fn rewards_of_outcomes() {
    let rewards = OutcomeRewards::default();
    for (ending, want) in [
        (taboo::RIGHT_GUESS, [-1.0, 1.0]),
        (taboo::WRONG_GUESS, [1.0, -1.0]),
        (taboo::TIE, [0.0, 0.0]),
        (taboo::BROKEN_RULE, [-1.5, 0.5]),
    ] {
        assert_eq!(rewards.of(&Verdict::of(ending, 3), &LABELS), want, "{}", ending.name);
    }
    // Utterances after the deciding one are left out.
    let turns = vec![Turn { seat: ATTACKER, tokens: 1 }; 5];
    assert_eq!(RewardedGame::new(&LABELS, "a", &Verdict::of(taboo::TIE, 3), turns, &rewards).turns.len(), 3);
}

#[test]
fn ties_have_rewards_of_their_kind_and_seat() {
    let ties = |text: &str| OutcomeRewards { tie: -0.25, ..serde_json::from_str(text).unwrap() };
    let of = |rewards: &OutcomeRewards| rewards.of(&Verdict::of(taboo::TIE, 3), &LABELS);
    assert_eq!(of(&ties("{}")), [-0.25, -0.25]);
    assert_eq!(of(&ties(r#"{"ties": {"tie": -1}}"#)), [-1.0, -1.0]);
    assert_eq!(of(&ties(r#"{"ties": {"draw": -1}}"#)), [-0.25, -0.25]);
    let seats = ties(r#"{"ties": {"tie": {"defender": -1}}}"#);
    assert_eq!(of(&seats), [-0.25, -1.0]);
    assert_eq!(seats.of(&Verdict::of(taboo::WRONG_GUESS, 3), &LABELS), WON);
    let infinite = OutcomeRewards { ties: [("tie".to_owned(), TieReward::Both(f64::NAN))].into(), ..seats.clone() };
    assert!(infinite.check().unwrap_err().to_string().contains("`ties` is NaN"));

    let game = spag_game::Taboo::default();
    seats.check_for(&[&game]).unwrap();
    for (text, said) in [
        (r#"{"ties": {"draw": -1}}"#, "no tie ends by \"draw\"; the ties are tie"),
        (r#"{"ties": {"right_guess": -1}}"#, "\"right_guess\""),
        (r#"{"ties": {"tie": {"dealer": -1}}}"#, "no seat \"dealer\"; the seats are attacker, defender"),
        (r#"{"by": "amounts"}"#, "taboo counts nothing but who wins"),
    ] {
        let error = ties(text).check_for(&[&game]).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn amounts_are_rewards_where_a_game_counts_them() {
    use spag_game::games::kuhn_poker;
    let rewards = OutcomeRewards { by: RewardSource::Amounts, ..OutcomeRewards::default() };
    let poker = &kuhn_poker::LABELS;
    let mut won = Verdict::won_by(poker.seats[1], kuhn_poker::CHIPS, 3);
    won.amounts = Some([-2, 2]);
    assert_eq!(rewards.of(&won, poker), [-2.0, 2.0]);
    let invalid = Verdict::won_by(poker.seats[1], spag_game::INVALID, 3);
    assert_eq!(rewards.of(&invalid, poker), [-1.5, 0.5]);
}

#[test]
fn drawn_winners_depend_on_the_seed_and_nothing_else() {
    let rewards = OutcomeRewards::default();
    let draw = |seed, outcome: [f64; SEATS]| -> Vec<RewardedGame> {
        let replace =
            |number| RandomWinner { seed }.replace(game("taboo", "a", outcome, &[2, 3]), number, &LABELS, &rewards);
        (0..400).map(replace).collect()
    };
    let games = draw(7, WON);
    assert_eq!(games, draw(7, TIED));
    assert_ne!(games, draw(8, WON));
    for drawn in &games {
        assert!(
            drawn.winner == Some(ATTACKER) && drawn.rewards == WON
                || drawn.winner == Some(DEFENDER) && drawn.rewards == LOST
        );
        assert_eq!((&drawn.kind, &drawn.key, drawn.turns.len()), (&"taboo".to_owned(), &"a".to_owned(), 2));
    }
    let won = games.iter().filter(|game| game.winner == Some(ATTACKER)).count();
    assert!((160..240).contains(&won), "{won} of 400");
}

#[test]
fn invalid_settings_are_refused_by_name() {
    let batch = BatchShape { games: 8, games_per_key: 2 };
    let rae = |decay, gamma| EstimatorSettings::Rae(Rae { decay, gamma });
    let turns = |gamma| EstimatorSettings::TurnBaseline(TurnBaseline { gamma, ..TurnBaseline::default() });
    let group = EstimatorSettings::Group(Group::default());
    for (settings, batch, said) in [
        (rae(1.0, 1.0), batch, "`decay` is 1; use a number from 0 and below 1"),
        (rae(f64::NAN, 1.0), batch, "`decay` is NaN"),
        (rae(0.9, 0.0), batch, "`gamma` is 0; use a number above 0"),
        (turns(1.5), batch, "`gamma` is 1.5"),
        (turns(1.0), BatchShape { games: 1, ..batch }, "`games` is 1; use at least 2"),
        (group, BatchShape { games_per_key: 1, ..batch }, "`games_per_key` is 1; use at least 2"),
        (EstimatorSettings::Winner(Winner { decay_weight: 0.0, norm: RewardNorm::Sum }), batch, "decay weight 0"),
        (EstimatorSettings::Signed(Signed { decay: -1.0, ..Signed::default() }), batch, "`decay` is -1"),
    ] {
        let error = settings.check(batch).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    for settings in all() {
        settings.check(batch).unwrap();
    }
    let rewards = OutcomeRewards { invalid: f64::INFINITY, ..OutcomeRewards::default() };
    assert!(rewards.check().unwrap_err().to_string().contains("`invalid` is inf"));
    let overflow = rewards.of(&Verdict::of(taboo::BROKEN_RULE, 1), &LABELS);
    let error = rae(0.9, 1.0).build().advantages(&[game("taboo", "a", overflow, &[1])]).unwrap_err();
    assert!(error.to_string().contains("advantage inf"), "{error}");
}

fn all() -> [EstimatorSettings; 6] {
    [
        EstimatorSettings::Rae(Rae::default()),
        EstimatorSettings::TurnBaseline(TurnBaseline::default()),
        EstimatorSettings::TurnBaseline(TurnBaseline { order: NormaliseOrder::SumFirst, gamma: 0.5 }),
        EstimatorSettings::Group(Group::default()),
        EstimatorSettings::Winner(Winner::default()),
        EstimatorSettings::Signed(Signed::default()),
    ]
}

#[test]
fn settings_are_named_in_files() {
    let read = serde_json::from_str::<EstimatorSettings>;
    assert_eq!(read(r#"{"name": "rae"}"#).unwrap(), all()[0]);
    assert_eq!(read(r#"{"name": "turn_baseline", "order": "sum_first", "gamma": 0.5}"#).unwrap(), all()[2]);
    assert_eq!(read(r#"{"name": "group", "deviation": "unbiased"}"#).unwrap(), all()[3]);
    for (text, said) in [(r#"{"name": "rea"}"#, "`rea`"), (r#"{"name": "rae", "decoy": 1}"#, "`decoy`")] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// Batches in which every kind and key has at least two games.
fn games() -> impl Strategy<Value = Vec<RewardedGame>> {
    let rewards = prop::sample::select(vec![WON, LOST, TIED, [-1.5, 0.5], [0.5, -1.5]]);
    let one = ("(taboo|nim)", "[ab]", rewards, prop::collection::vec(0usize..6, 0..6));
    prop::collection::vec(one, 1..12).prop_map(|games| {
        let games = games.into_iter().map(|(kind, key, rewards, tokens)| game(&kind, &key, rewards, &tokens));
        games.flat_map(|one| [RewardedGame { rewards: WON, ..one.clone() }, one]).collect()
    })
}

proptest! {
    #[test]
    fn every_turn_has_a_finite_advantage_or_none(games in games()) {
        for settings in all() {
            let found = advantages(settings, &games);
            prop_assert_eq!(found.len(), games.len());
            for (game, found) in games.iter().zip(found) {
                prop_assert_eq!(found.len(), game.turns.len());
                for (turn, advantage) in game.turns.iter().zip(found) {
                    prop_assert!(advantage.is_none_or(|advantage| advantage.is_finite() && turn.tokens > 0));
                }
            }
        }
    }

    #[test]
    fn estimators_without_state_do_not_depend_on_the_order_of_games(games in games(), shift in 0usize..24) {
        let moved: Vec<usize> = (0..games.len()).map(|at| (at + shift) % games.len()).rev().collect();
        let other: Vec<RewardedGame> = moved.iter().map(|at| games[*at].clone()).collect();
        for settings in &all()[1..5] {
            let (found, of_other) = (advantages(*settings, &games), advantages(*settings, &other));
            let want: Vec<Vec<Option<f64>>> = moved.iter().map(|at| found[*at].clone()).collect();
            assert_near(&of_other, &want);
        }
    }

    #[test]
    fn a_restored_estimator_continues_bit_by_bit(first in games(), second in games()) {
        for settings in all() {
            let mut without_break = settings.build();
            without_break.advantages(&first).unwrap();
            let written = serde_json::to_string(&without_break.state()).unwrap();
            let mut restored = settings.build();
            restored.restore(serde_json::from_str(&written).unwrap());
            prop_assert_eq!(restored.advantages(&second).unwrap(), without_break.advantages(&second).unwrap());
            prop_assert_eq!(restored.state(), without_break.state());
        }
    }

    /// Each seat wins half of the games of a long run, in any order.
    #[test]
    fn equal_strength_has_a_mean_advantage_of_about_zero(seed in any::<u64>()) {
        let draw = |number| {
            let played = game("taboo", "a", TIED, &[1, 1]);
            RandomWinner { seed }.replace(played, number, &LABELS, &OutcomeRewards::default())
        };
        let games: Vec<RewardedGame> = (0..4000).map(draw).collect();
        let found = advantages(EstimatorSettings::Rae(Rae::default()), &games);
        for seat in 0..SEATS {
            let mean = found.iter().map(|game| game[seat].unwrap_or(0.0)).sum::<f64>() / 4000.0;
            // Each step adds (1 − decay)·(R − b) to b, so the sum of R − b is b/0.05, at most 20.
            prop_assert!(mean.abs() < 0.006, "{mean}");
        }
        prop_assert!(found.iter().all(|game| game[0].zip(game[1]).is_some_and(|(first, second)| first == -second)));
    }
}
