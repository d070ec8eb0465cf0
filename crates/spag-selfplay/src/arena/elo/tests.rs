use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn seating(first: usize, second: usize, games: f64, points: f64) -> Seating {
    Seating { players: [first, second], games, points }
}

fn without_prior(players: usize, seatings: &[Seating]) -> Fit {
    fit_with(&Likelihood::new(players, seatings, 0.0))
}

fn points(all: &[Elo]) -> Vec<f64> {
    all.iter().map(|elo| elo.points).collect()
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() < tolerance
}

/// 75% in both seats: 400·log10(3) = 190.85 apart, without an edge. The information on the distance is Σ n·p·(1 − p) =
/// 200 · 0.1875 = 37.5 in log odds, so its standard error is 173.72 / √37.5 = 28.368 points.
#[test]
fn two_players_match_a_calculation_by_hand() {
    let games = [seating(0, 1, 100.0, 75.0), seating(1, 0, 100.0, 25.0)];
    let fit = without_prior(2, &games);
    let [a, b] = fit.ratings(EloScale::Mean)[..] else { panic!() };
    assert!(close(a.points - b.points, 190.848_501, 1e-5) && close(a.points + b.points, 3000.0, 1e-9), "{a:?} {b:?}");
    assert!(close(a.high - a.points, 1.959_964 * 28.368 / 2.0, 1e-2), "{a:?}");
    assert!(close(b.points - b.low, a.high - a.points, 1e-9));
    let edge = fit.edge();
    // Σ n·p·(1 − p) for the edge too.
    assert!(close(edge.points, 0.0, 1e-9) && close(edge.high, 1.959_964 * 28.368, 1e-2), "{edge:?}");
    let [a, b] = fit.ratings(EloScale::Anchor(1))[..] else { panic!() };
    assert_eq!((b.points, b.low, b.high), (1500.0, 1500.0, 1500.0));
    assert!(close(a.points, 1_690.848_501, 1e-5) && close(a.high - a.points, 1.959_964 * 28.368, 1e-2), "{a:?}");
}

/// A wins 90% when it attacks and half when it defends: ln 9 = d + e and 0 = d − e, so d = e = ln(9)/2.
#[test]
fn edge_is_separated_from_strength() {
    let games = [seating(0, 1, 50.0, 45.0), seating(1, 0, 50.0, 25.0)];
    let fit = without_prior(2, &games);
    let ratings = fit.ratings(EloScale::Mean);
    assert!(close(ratings[0].points - ratings[1].points, 190.848_501, 1e-5));
    assert!(close(fit.edge().points, 190.848_501, 1e-5));
    // Self-play only determines the edge: 3 to 1 again.
    let fit = without_prior(2, &[&games[..], &[seating(0, 0, 40.0, 30.0)]].concat());
    let again = fit.ratings(EloScale::Mean);
    assert!(close(again[0].points - again[1].points, 190.848_501, 1e-5));
}

/// One virtual tie: with 2 players at ±d/2 and no edge, 75 of 100 points in both seats solve
/// 2·(75 − 100·σ(d)) = σ(d/2) − ½ (each player has half of the virtual games, and d moves both).
#[test]
fn virtual_ties_shift_ratings_as_calculated() {
    let games = [seating(0, 1, 100.0, 75.0), seating(1, 0, 100.0, 25.0)];
    let fit = fit(2, &games);
    let apart = fit.at[0] - fit.at[1];
    let share = |odds: f64| 1.0 / (1.0 + (-odds).exp());
    assert!(close(2.0 * (75.0 - 100.0 * share(apart)), share(apart / 2.0) - 0.5, 1e-9), "{apart}");
    let points = POINTS * apart;
    assert!(points < 190.848 && points > 189.0, "{points}");
}

#[test]
fn perfect_scores_give_finite_ratings_and_wide_intervals() {
    for games in [1.0, 10.0, 1e6] {
        let fit = fit(3, &[seating(0, 1, games, games), seating(1, 0, games, 0.0)]);
        let [a, b, c] = fit.ratings(EloScale::Mean)[..] else { panic!() };
        assert!(a.points > 1500.0 && b.points < 1500.0 && close(c.points, 1500.0, 1e-6), "{a:?} {b:?} {c:?}");
        assert!(a.points.is_finite() && a.high - a.low > 300.0 && c.high - c.low > 300.0, "{a:?} {c:?}");
    }
    // Every attacker wins: the edge is finite too.
    let edge = fit(2, &[seating(0, 1, 20.0, 20.0), seating(1, 0, 20.0, 20.0)]).edge();
    assert!(edge.low > 0.0 && edge.points.is_finite(), "{edge:?}");
    // No games.
    let none = fit(2, &[]).ratings(EloScale::Mean);
    assert_eq!(points(&none), [1500.0, 1500.0]);
}

/// Games of players of known strength: the 95% intervals hold the truth about 95 times of 100.
#[test]
fn known_ratings_are_recovered_within_the_intervals() {
    let truth = [1650.0, 1560.0, 1500.0, 1470.0, 1320.0];
    let edge = 60.0;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut held, mut total) = (0, 0);
    for _ in 0..60 {
        let mut games = Vec::new();
        for attacker in 0..truth.len() {
            for defender in (0..truth.len()).filter(|defender| *defender != attacker) {
                let distance: f64 = truth[attacker] - truth[defender] + edge;
                let share = 1.0 / (1.0 + 10f64.powf(-distance / 400.0));
                let won: Vec<bool> = (0..120).map(|_| rng.random_bool(share)).collect();
                games.push(seating(attacker, defender, 120.0, won.iter().filter(|won| **won).count() as f64));
            }
        }
        let fit = fit(truth.len(), &games);
        let mut check = |elo: Elo, truth: f64| {
            total += 1;
            held += usize::from((elo.low..=elo.high).contains(&truth));
            assert!((elo.points - truth).abs() < 80.0, "{elo:?} {truth}");
        };
        fit.ratings(EloScale::Mean).into_iter().zip(truth).for_each(|(elo, truth)| check(elo, truth));
        check(fit.edge(), edge);
        let anchored = fit.ratings(EloScale::Anchor(4));
        anchored[..4].iter().zip(truth).for_each(|(elo, truth)| check(*elo, truth - 1320.0 + 1500.0));
    }
    let share = held as f64 / total as f64;
    assert!((0.92..=0.98).contains(&share), "{held} of {total}");
}

fn any_games() -> impl Strategy<Value = Vec<Seating>> {
    let one = (0..4usize, 0..4usize, 0..2000usize, 0.0..=1.0f64, prop::sample::select(vec![1.0, 1e-3, 1e4]));
    let one = one.prop_map(|(attacker, defender, games, share, scale)| {
        let games = games as f64 * scale;
        // All games won and all games lost are frequent cases.
        let share = match share {
            low if low < 0.2 => 0.0,
            high if high > 0.8 => 1.0,
            share => share,
        };
        seating(attacker, defender, games, games * share)
    });
    prop::collection::vec(one, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn ratings_are_always_finite(games in any_games(), anchor in 0..4usize) {
        let fit = fit(4, &games);
        let all = fit.ratings(EloScale::Mean).into_iter().chain(fit.ratings(EloScale::Anchor(anchor)));
        for elo in all.chain([fit.edge()]) {
            prop_assert!(elo.low.is_finite() && elo.high.is_finite() && elo.low <= elo.points && elo.points <= elo.high);
        }
        let mean = points(&fit.ratings(EloScale::Mean)).iter().sum::<f64>() / 4.0;
        prop_assert!(close(mean, 1500.0, 1e-6), "{}", mean);
        prop_assert_eq!(fit.ratings(EloScale::Anchor(anchor))[anchor].points, 1500.0);
    }

    /// The gradient is small against the number of games that it sums over.
    #[test]
    fn gradient_vanishes_at_the_fit(games in any_games()) {
        let likelihood = Likelihood::new(4, &games, VIRTUAL_TIES);
        let fit = fit_with(&likelihood);
        let (gradient, _) = likelihood.derivatives(&fit.at);
        let scale = 1.0 + games.iter().map(|s| s.games).sum::<f64>();
        prop_assert!(gradient.iter().all(|slope| slope.abs() < 1e-9 * scale), "{:?}", gradient);
    }

    #[test]
    fn order_and_grouping_of_games_do_not_matter(games in any_games(), by in 0..12usize) {
        let whole = fit(4, &games).ratings(EloScale::Mean);
        let mut other: Vec<Seating> = games
            .iter()
            .flat_map(|s| std::iter::repeat_n(Seating { games: s.games / 2.0, points: s.points / 2.0, ..*s }, 2))
            .collect();
        other.reverse();
        let by = by.min(other.len());
        other.rotate_left(by);
        for (a, b) in whole.iter().zip(fit(4, &other).ratings(EloScale::Mean)) {
            prop_assert!(close(a.points, b.points, 1e-3) && close(a.high, b.high, 1e-1), "{:?} {:?}", a, b);
        }
    }

    /// Permuting the players changes nothing, and swapping wins and losses mirrors the ratings.
    #[test]
    fn indices_do_not_matter_and_losses_mirror_wins(games in any_games()) {
        let first = fit(4, &games);
        let ratings = first.ratings(EloScale::Mean);
        let moved: Vec<Seating> =
            games.iter().map(|s| Seating { players: s.players.map(|player| 3 - player), ..*s }).collect();
        let mut again = fit(4, &moved).ratings(EloScale::Mean);
        again.reverse();
        for (a, b) in ratings.iter().zip(&again) {
            prop_assert!(close(a.points, b.points, 1e-3), "{:?} {:?}", a, b);
        }
        let lost: Vec<Seating> = games.iter().map(|s| Seating { points: s.games - s.points, ..*s }).collect();
        let mirrored = fit(4, &lost);
        for (a, b) in ratings.iter().zip(mirrored.ratings(EloScale::Mean)) {
            prop_assert!(close(a.points - 1500.0, 1500.0 - b.points, 1e-3), "{:?} {:?}", a, b);
        }
        prop_assert!(close(first.edge().points, -mirrored.edge().points, 1e-3));
    }
}
