//! Which players meet, and the files of their games.

use std::collections::HashMap;

use spag_game::SEATS;

use super::player::NamedPlayer;
use crate::error::{Error, Result};

/// Two players in fixed seats, by their indices in the list of players, in the order of the seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pairing(pub [usize; SEATS]);

/// Whether players also play against themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelfPlay {
    /// They do not.
    #[default]
    Without,
    /// They do. These games show only the advantage of a seat.
    With,
}

/// Every two players in both seats, ordered so that consecutive pairings share players and few checkpoints are loaded.
///
/// ```
/// use spag_selfplay::arena::{Pairing, SelfPlay, pairings};
/// assert_eq!(pairings(2, SelfPlay::Without), [Pairing([0, 1]), Pairing([1, 0])]);
/// assert_eq!(pairings(2, SelfPlay::With), [[0, 0], [0, 1], [1, 0], [1, 1]].map(Pairing));
/// ```
pub fn pairings(players: usize, self_play: SelfPlay) -> Vec<Pairing> {
    let mut all = Vec::new();
    for first in 0..players {
        if self_play == SelfPlay::With {
            all.push(Pairing([first, first]));
        }
        for second in first + 1..players {
            all.push(Pairing([first, second]));
            all.push(Pairing([second, first]));
        }
    }
    all
}

/// The file of a pairing's games.
pub fn record_file(players: &[NamedPlayer], pairing: Pairing) -> String {
    format!("{}.jsonl", stem(players, pairing))
}

/// The file of a pairing's failed games, named as by [`GameRecord`](spag_game::GameRecord).
fn failed_file(players: &[NamedPlayer], pairing: Pairing) -> String {
    format!("{}_failed.jsonl", stem(players, pairing))
}

fn stem(players: &[NamedPlayer], pairing: Pairing) -> String {
    let name = |index: usize| players.get(index).map_or("", |player| player.name.as_str());
    pairing.0.map(name).join("_vs_")
}

/// Checks that no two pairings write to one file. The names `a_vs` and `b` collide with `a` and `vs_b`, and the games of
/// `b_failed` with the failed games of `b`.
///
/// # Errors
/// Two pairings with the same file.
pub fn check_files(players: &[NamedPlayer], pairings: &[Pairing]) -> Result<()> {
    let mut taken: HashMap<String, Pairing> = HashMap::new();
    for pairing in pairings {
        for file in [record_file(players, *pairing), failed_file(players, *pairing)] {
            if let Some(other) = taken.insert(file.to_lowercase(), *pairing) {
                let describe = |pairing: Pairing| stem(players, pairing).replacen("_vs_", " against ", 1);
                let (first, second) = (describe(other), describe(*pairing));
                return Err(Error::BadArena(format!(
                    "{first} and {second} would both write to {file}; give one of the players another name"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn players(names: &[&str]) -> Vec<NamedPlayer> {
        names.iter().map(|name| format!("{name}=m").parse().unwrap()).collect()
    }

    #[test]
    fn all_players_meet_once_in_both_seats() {
        for (self_play, count) in [(SelfPlay::Without, 20), (SelfPlay::With, 25)] {
            let all = pairings(5, self_play);
            let different: std::collections::HashSet<_> = all.iter().collect();
            assert_eq!((all.len(), different.len()), (count, count));
        }
        // From one pairing to the next at most one player is new, except when the first player changes.
        let all = pairings(4, SelfPlay::Without);
        let new = |pair: &[Pairing]| {
            let before = pair[0].0;
            pair[1].0.iter().filter(|player| !before.contains(player)).count()
        };
        assert_eq!(all.windows(2).map(new).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn pairings_that_share_a_file_are_refused() {
        let check = |names: &[&str]| {
            let players = players(names);
            check_files(&players, &pairings(players.len(), SelfPlay::With)).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["a", "b", "c_vs", "d, e"]), Ok(()));
        let said = check(&["a_vs", "b", "a", "vs_b"]).unwrap_err();
        assert!(said.contains("a_vs_vs_b.jsonl"), "{said}");
        let said = check(&["b", "b_failed"]).unwrap_err();
        assert!(said.contains("b_vs_b_failed.jsonl"), "{said}");
    }
}
