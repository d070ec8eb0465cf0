//! Queries of samples.

use proptest::prelude::*;
use spag_game::taboo::Outcome;
use spag_game::{Episode, Taboo, taboo};
use spag_rewards::{CreditConfig, Sample, assign_rewards};

/// A game in which the defender says or predicts the word in the last turn.
fn game(word: &str, turns: usize, defender_wins: bool) -> Episode {
    let mut episode = Episode::new(word, turns);
    for turn in 1..=turns {
        episode.push(taboo::ATTACKER, format!("clue {turn}"));
        let last = if defender_wins { format!("I know the word! It is `{word}`!") } else { format!("Maybe {word}.") };
        episode.push(taboo::DEFENDER, if turn == turns { last } else { format!("reply {turn}") });
    }
    episode
}

fn credit(episodes: &[Episode], seed: u64) -> Vec<Sample> {
    assign_rewards(episodes, &Taboo::default(), &CreditConfig { seed, ..CreditConfig::default() }).unwrap().samples
}

#[test]
fn query_shows_the_game_before_the_utterance() {
    let samples = credit(&[game("pear", 3, true)], 5);
    assert_eq!(samples.len(), 3);
    for (turn, sample) in (1..).zip(&samples) {
        assert!(sample.query.text().contains(&format!("clue {turn}")), "{}", sample.query.text());
        assert!(!sample.query.text().contains(&format!("clue {}", turn + 1)));
        assert!(!sample.query.text().contains(&sample.target));
        assert!(!sample.query.text().contains("pear"));
    }
}

#[test]
fn wordings_depend_on_the_seed() {
    let queries = |seed| {
        credit(&[game("pear", 4, false)], seed).into_iter().map(|sample| sample.query.text()).collect::<Vec<_>>()
    };
    assert_eq!(queries(1), queries(1));
    assert!((2..10).any(|seed| queries(seed) != queries(1)));
}

proptest! {
    #[test]
    fn wording_does_not_depend_on_other_episodes(
        games in proptest::collection::vec((1usize..5, any::<bool>(), "[a-z]{3,8}"), 1..6), seed: u64, at: prop::sample::Index,
    ) {
        let episodes: Vec<Episode> = games.iter().map(|(turns, wins, word)| game(word, *turns, *wins)).collect();
        let at = at.index(episodes.len());
        // All other games are replaced by games without a winner.
        let mut others: Vec<Episode> = episodes.iter().map(|_| Episode::new("zzzz", 1)).collect();
        others[at] = episodes[at].clone();
        let alone = assign_rewards(&others, &Taboo::default(), &CreditConfig { seed, ..CreditConfig::default() }).unwrap();
        prop_assert!(alone.verdicts.iter().enumerate().all(|(i, verdict)| i == at || Outcome::from(*verdict) == Outcome::Tie));
        let all = credit(&episodes, seed);
        let mine = alone.samples.iter().map(|sample| (&sample.query, &sample.target, sample.reward));
        let start: usize = assign_rewards(&episodes[..at], &Taboo::default(), &CreditConfig::default()).unwrap().samples.len();
        let among_all = all.iter().skip(start).take(alone.samples.len()).map(|sample| (&sample.query, &sample.target, sample.reward));
        prop_assert_eq!(mine.collect::<Vec<_>>(), among_all.collect::<Vec<_>>());
    }

    #[test]
    fn rewards_and_weights_balance_the_roles(games in proptest::collection::vec((1usize..6, any::<bool>()), 1..30)) {
        let episodes: Vec<Episode> = games.iter().map(|(turns, wins)| game("plum", *turns, *wins)).collect();
        let samples = credit(&episodes, 0);
        let total = |role| samples.iter().filter(|s| s.seat == Some(role)).map(|s| s.weight * s.reward).sum::<f64>();
        let wins = |defender| games.iter().filter(|(_, wins)| *wins == defender).count();
        for (role, won) in [(taboo::ATTACKER, wins(false)), (taboo::DEFENDER, wins(true))] {
            let half = if won == 0 { 0.0 } else { games.len() as f64 / 2.0 };
            prop_assert!((total(role) - half).abs() < 1e-9);
        }
    }
}
