//! Games with rewards, as estimators read them, and what is counted of credited ones.

use spag_game::taboo::{self, ATTACKER, DEFENDER, LABELS};
use spag_game::{Episode, Verdict};
use spag_rewards::{
    CreditConfig, DecayedWinner, EstimatorSettings, OutcomeRewards, Rae, RewardNorm, RewardedGame, SampleReasoning,
    Signed, SignedSeats, Turn, TurnBaseline, assign_rewards, credit_games,
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
    let credited = credit_games(&spag_game::Taboo::default(), &games, &rule, (0, &SampleReasoning::default())).unwrap();
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

#[test]
fn winners_alone_have_samples_of_the_rules_for_winners() {
    use spag_rewards::{Credit, ImitatedWinner};
    let decayed = DecayedWinner { decay_weight: 0.8, norm: RewardNorm::Sum };
    for rule in [&decayed as &dyn Credit, &ImitatedWinner] {
        let has = [taboo::RIGHT_GUESS, taboo::WRONG_GUESS, taboo::TIE, taboo::BROKEN_RULE]
            .map(|ending| rule.has_samples(&Verdict::of(ending, 3)));
        assert_eq!(has, [true, true, false, false]);
    }
}

#[test]
fn reward_norms_have_names() {
    for (norm, name) in [(RewardNorm::Sum, "sum"), (RewardNorm::Mean, "mean")] {
        assert_eq!((name.parse::<RewardNorm>().unwrap(), norm.to_string().as_str()), (norm, name));
    }
    assert!("most".parse::<RewardNorm>().unwrap_err().to_string().contains("most"));
}

/// The whole game before each sample, the sample and the word count.
#[test]
fn long_game_is_refused_with_the_bytes_of_its_samples() {
    let mut episode = Episode::new("apple", 5);
    let text = "a".repeat(1 << 18);
    (0..66).for_each(|at| episode.push(LABELS.seat_at(at), text.as_str()));
    let rule = DecayedWinner { decay_weight: 0.8, norm: RewardNorm::Sum };
    let credit = |length| {
        let game = (&episode, Verdict::of(taboo::WRONG_GUESS, length));
        credit_games(&spag_game::Taboo::default(), &[game], &rule, (0, &SampleReasoning::default()))
    };
    // The attacker's utterances are the 1st, 3rd … 65th: 1 + 3 + … + 65 = 33² texts.
    let Err(spag_rewards::Error::LongGame { samples, bytes, limit }) = credit(66) else { panic!("it is too long") };
    assert_eq!((samples, bytes, limit), (33, 33 * 33 * (1 << 18) + 33 * 5, 1 << 28));
    assert_eq!(credit(2).unwrap().samples.len(), 1);
}

/// Both deviations of MARSHAL have 1e-8 under the root, so that whitened values are a little less than 1.
#[test]
fn rewards_are_whitened_before_returns_are() {
    let turns = |tokens: &[usize]| {
        let seats = [ATTACKER, DEFENDER, ATTACKER];
        seats.into_iter().zip(tokens).map(|(seat, tokens)| Turn { seat, tokens: *tokens }).collect::<Vec<_>>()
    };
    let game = |ending, tokens: &[usize]| {
        RewardedGame::new(&LABELS, "apple", &Verdict::of(ending, 3), turns(tokens), &OutcomeRewards::default())
    };
    let games = [game(taboo::WRONG_GUESS, &[2, 1, 2]), game(taboo::RIGHT_GUESS, &[4])];
    let found = EstimatorSettings::TurnBaseline(TurnBaseline::default()).build().advantages(&games).unwrap();
    // Rewards 0, 1 | −1 of nine tokens have variance 2 / 8, returns the square of the whitened reward.
    let reward = 1.0 / (0.25f64 + 1e-8).sqrt();
    let expected = reward / (reward * reward + 1e-8).sqrt();
    let first = &found.games()[0];
    assert!((first[0].unwrap() - expected).abs() < 1e-11, "{first:?} {expected}");
}

/// Samples of a game that is not Adversarial Taboo have its name, but not its options.
#[test]
fn samples_have_the_name_of_their_game() {
    let nim = spag_game::open_game("nim", &spag_game::parse_options("piles=[1,1]"), None, Default::default()).unwrap();
    let mut episode = Episode::new("", 0);
    episode.extra.extend(nim.record_keys());
    assert_eq!(episode.extra.len(), 2);
    nim.labels().seats.into_iter().zip(["[0 1]", "[1 1]"]).for_each(|(seat, text)| episode.push(seat, text));
    let credited = assign_rewards(&[episode], &*nim, &CreditConfig::default()).unwrap();
    let [sample] = &credited.samples[..] else { panic!("{credited:?}") };
    assert_eq!((sample.target.as_str(), sample.seat), ("[1 1]", Some(nim.labels().seats[1])));
    assert_eq!(serde_json::to_string(&sample.extra).unwrap(), r#"{"game_name":"nim"}"#);
}

/// Also in games that are so long that the rewards would overflow.
#[test]
fn rewards_grow_towards_the_end() {
    for utterances in [3, 20_000] {
        let rewards = spag_rewards::discounted_rewards(utterances, 0.5, RewardNorm::Sum);
        for (found, want) in rewards.iter().rev().zip([4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]) {
            let want = if utterances == 3 { want } else { want * 7.0 / 8.0 };
            assert!((found - want).abs() < 1e-12, "{found} {want}");
        }
    }
}
