//! Who meets whom, on which words, and into which file.

use std::collections::HashMap;

use spag_game::{GameSpec, game_seed};

use super::entrant::Entrant;
use crate::error::{Error, Result};

/// Two players in fixed seats, by their places in the list of players.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pairing {
    /// Who attacks.
    pub attacker: usize,
    /// Who defends.
    pub defender: usize,
}

/// Whether players also meet themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelfPlay {
    /// They do not.
    #[default]
    Without,
    /// Each plays a set of games with itself, which tell what the seats alone are worth.
    With,
}

/// Every two players in both seats. The two seatings of a pair follow each other, and so do the pairs of a player, so
/// that whoever plays them in this order changes as few players as possible.
///
/// ```
/// use spag_selfplay::arena::{Pairing, SelfPlay, pairings};
/// let at = |attacker, defender| Pairing { attacker, defender };
/// assert_eq!(pairings(2, SelfPlay::Without), [at(0, 1), at(1, 0)]);
/// assert_eq!(pairings(2, SelfPlay::With), [at(0, 0), at(0, 1), at(1, 0), at(1, 1)]);
/// ```
pub fn pairings(players: usize, self_play: SelfPlay) -> Vec<Pairing> {
    let mut all = Vec::new();
    for first in 0..players {
        if self_play == SelfPlay::With {
            all.push(Pairing { attacker: first, defender: first });
        }
        for second in first + 1..players {
            all.push(Pairing { attacker: first, defender: second });
            all.push(Pairing { attacker: second, defender: first });
        }
    }
    all
}

/// The games of every pairing, the same for all, so that pairings differ in their players alone: words in turn, and
/// seeds that follow from `seed` and the game's number.
pub fn arena_games(words: &[String], count: usize, max_turns: usize, seed: u64) -> Vec<GameSpec> {
    let words = words.iter().cycle().take(count).enumerate();
    words
        .map(|(game, word)| GameSpec { game, target_word: word.clone(), max_turns, seed: game_seed(seed, game) })
        .collect()
}

/// The file of a pairing's games.
pub fn record_file(entrants: &[Entrant], pairing: Pairing) -> String {
    format!("{}.jsonl", stem(entrants, pairing))
}

/// The file of those of a pairing's games that failed, as [`GameRecord`](spag_game::GameRecord) names it.
pub fn failed_file(entrants: &[Entrant], pairing: Pairing) -> String {
    format!("{}_failed.jsonl", stem(entrants, pairing))
}

fn stem(entrants: &[Entrant], pairing: Pairing) -> String {
    let name = |at: usize| entrants.get(at).map_or("", |entrant| entrant.name.as_str());
    format!("{}_vs_{}", name(pairing.attacker), name(pairing.defender))
}

/// Checks that no two pairings write to one file: `a_vs` against `b` would meet `a` against `vs_b`, and the games of
/// `b_failed` the failed games of `b`.
///
/// # Errors
/// The file and both pairings.
pub fn check_files(entrants: &[Entrant], pairings: &[Pairing]) -> Result<()> {
    let mut taken: HashMap<String, Pairing> = HashMap::new();
    for pairing in pairings {
        for file in [record_file(entrants, *pairing), failed_file(entrants, *pairing)] {
            if let Some(other) = taken.insert(file.to_lowercase(), *pairing) {
                let say = |pairing: Pairing| stem(entrants, pairing).replacen("_vs_", " against ", 1);
                return Err(Error::SameFile { file, first: say(other), second: say(*pairing) });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrants(names: &[&str]) -> Vec<Entrant> {
        names.iter().map(|name| format!("{name}=m").parse().unwrap()).collect()
    }

    #[test]
    fn everybody_meets_everybody_in_both_seats_once() {
        for (self_play, count) in [(SelfPlay::Without, 20), (SelfPlay::With, 25)] {
            let all = pairings(5, self_play);
            let different: std::collections::HashSet<_> = all.iter().collect();
            assert_eq!((all.len(), different.len()), (count, count));
        }
        // From one pairing to the next at most one player is new, but where the next player's turn has come.
        let all = pairings(4, SelfPlay::Without);
        let new = |pair: &[Pairing]| {
            let before = [pair[0].attacker, pair[0].defender];
            [pair[1].attacker, pair[1].defender].iter().filter(|player| !before.contains(player)).count()
        };
        assert_eq!(all.windows(2).map(new).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn the_words_go_round_and_the_seeds_follow_the_number() {
        let games = arena_games(&["tea".into(), "bear".into()], 5, 3, 9);
        let words: Vec<&str> = games.iter().map(|game| game.target_word.as_str()).collect();
        assert_eq!(words, ["tea", "bear", "tea", "bear", "tea"]);
        assert!(games.iter().enumerate().all(|(at, game)| game.game == at && game.seed == game_seed(9, at)));
        assert!(arena_games(&[], 5, 3, 9).is_empty());
    }

    #[test]
    fn no_two_pairings_share_a_file() {
        let check = |names: &[&str]| {
            let entrants = entrants(names);
            check_files(&entrants, &pairings(entrants.len(), SelfPlay::With)).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["a", "b", "c_vs", "d, e"]), Ok(()));
        let said = check(&["a_vs", "b", "a", "vs_b"]).unwrap_err();
        assert!(said.contains("a_vs_vs_b.jsonl"), "{said}");
        let said = check(&["b", "b_failed"]).unwrap_err();
        assert!(said.contains("b_vs_b_failed.jsonl"), "{said}");
    }
}
