//! Perfect play of Nim, by Bouton's nim-sum: a position is lost for the player to move if the exclusive or of all piles is 0.

use serde_json::{Map, Value};

use super::{action, moves};
use crate::games::perfect_play::PerfectPlay;
use crate::seat::SEATS;

/// How many moves of each player, a pile and an amount, keep the value of their position. `None` if one is illegal.
///
/// ```
/// use spag_game::games::nim;
/// // Of 3, 4 and 5, the first player wins by taking 2 of the first pile; the second has then lost whatever it plays.
/// let [first, second] = nim::perfect_play(&[3, 4, 5], &[(0, 2), (2, 1), (1, 4)]).unwrap();
/// assert_eq!((first.kept, first.moves, second.share()), (1, 2, Some(1.0)));
/// ```
pub fn perfect_play(piles: &[u64], moves: &[(usize, u64)]) -> Option<[PerfectPlay; SEATS]> {
    let mut piles = piles.to_vec();
    let mut counts = [PerfectPlay::default(); SEATS];
    for (turn, (pile, amount)) in moves.iter().enumerate() {
        let was_lost = is_lost(&piles);
        let left = piles.get_mut(*pile)?;
        *left = left.checked_sub(*amount).filter(|_| *amount > 0)?;
        let count = &mut counts[turn % SEATS];
        count.moves += 1;
        count.kept += usize::from(was_lost || is_lost(&piles));
    }
    Some(counts)
}

/// The actions that keep the value of a public state.
pub(in crate::games) fn best_actions(state: &Map<String, Value>) -> Option<Vec<String>> {
    let piles: Vec<u64> = state.get("piles")?.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    let keeps = |(pile, amount): &(usize, u64)| {
        let mut after = piles.clone();
        after[*pile] -= amount;
        is_lost(&piles) || is_lost(&after)
    };
    Some(moves(&piles).filter(keeps).map(action).collect())
}

/// Whether the player to move loses against perfect play.
fn is_lost(piles: &[u64]) -> bool {
    piles.iter().fold(0, |sum, pile| sum ^ pile) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::games::perfect_play::{Solvable, count};

    impl Solvable for Vec<u64> {
        type Move = (usize, u64);

        fn result(&self) -> Option<i8> {
            self.iter().all(|pile| *pile == 0).then_some(-1)
        }

        fn moves(&self) -> Vec<(usize, u64)> {
            moves(self).collect()
        }

        fn after(&self, (pile, amount): (usize, u64)) -> Self {
            let mut after = self.clone();
            after[pile] -= amount;
            after
        }
    }

    #[test]
    fn nim_sums_agree_with_a_search_of_all_games() {
        let start = vec![2, 3, 4];
        for first in start.moves() {
            let second = start.after(first).moves();
            for moves in second.into_iter().map(|second| [first, second]) {
                assert_eq!(perfect_play(&start, &moves), count(start.clone(), &moves), "{moves:?}");
            }
        }
        assert_eq!(perfect_play(&start, &[(0, 3)]), None);
        assert_eq!(count(start, &[(0, 0)]), None);
    }
}
