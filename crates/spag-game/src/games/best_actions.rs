//! The best actions of games that are solved: a perfect player, and what other players are measured against.

use super::connect_four::{self, Solving};
use super::nim;
use super::perfect_play::Values;
use super::tic_tac_toe::{self, Board};
use crate::error::Result;
use crate::game::{Game, Match};
use crate::policy::{ScriptedPolicy, TurnRequest};
use crate::spec::GameSpec;

/// Perfect play in tic-tac-toe, in Nim, and in Connect Four on a board of up to 16 cells.
///
/// ```
/// use spag_game::games::BestActions;
///
/// let game = spag_game::open_game("tic-tac-toe", &Default::default(), None, Default::default())?;
/// let mut best = BestActions::of(&*game)?.unwrap();
/// let mut state = BestActions::start(&*game, 0)?;
/// // Only the centre draws against a corner.
/// state.apply("[0]");
/// assert_eq!(best.in_state(&*state), ["[4]"]);
/// # Ok::<(), spag_game::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BestActions(Solved);

/// A solved game with the positions that are known.
#[derive(Clone, Debug)]
enum Solved {
    TicTacToe(Values<Board>),
    ConnectFour(Values<Solving>),
    Nim,
}

impl BestActions {
    /// The solution of a game; `None` if it has none, because of chance, of secrets or of its size.
    ///
    /// # Errors
    /// The game cannot be started.
    pub fn of(game: &dyn Game) -> Result<Option<Self>> {
        let name = game.labels().name;
        let solved = match () {
            () if name == tic_tac_toe::LABELS.name => Solved::TicTacToe(Values::default()),
            () if name == connect_four::LABELS.name => Solved::ConnectFour(Values::default()),
            () if name == nim::LABELS.name => Solved::Nim,
            () => return Ok(None),
        };
        let mut best = Self(solved);
        let is_solved = best.find(&*Self::start(game, 0)?).is_some();
        Ok(is_solved.then_some(best))
    }

    /// A game that a seed deals.
    ///
    /// # Errors
    /// The game cannot be started.
    pub fn start(game: &dyn Game, seed: u64) -> Result<Box<dyn Match + '_>> {
        game.start(&GameSpec { number: 0, item: String::new(), max_turns: 0, seed, sampling_seed: None })
    }

    /// The legal actions of the player to move that keep the value of the position; none after the end.
    pub fn in_state(&mut self, state: &dyn Match) -> Vec<String> {
        self.find(state).unwrap_or_default()
    }

    fn find(&mut self, state: &dyn Match) -> Option<Vec<String>> {
        let state = state.public_state();
        match &mut self.0 {
            Solved::TicTacToe(values) => tic_tac_toe::best_actions(&state, values),
            Solved::ConnectFour(values) => connect_four::best_actions(&state, values),
            Solved::Nim => nim::best_actions(&state),
        }
    }

    /// A player of `game` that chooses any of the best actions, by the seed of the turn.
    pub fn player(mut self, game: &dyn Game) -> ScriptedPolicy<impl FnMut(&TurnRequest<'_>) -> String> {
        ScriptedPolicy::new(move |turn: &TurnRequest<'_>| {
            let Ok(mut state) = Self::start(game, turn.game_seed) else { return String::new() };
            for said in &turn.episode.history {
                state.apply(&said.content);
            }
            let best = self.in_state(&*state);
            let chosen = (turn.seed % (best.len() as u64).max(1)) as usize;
            best.into_iter().nth(chosen).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CollectedGames, PlayConfig, Seats, parse_options, play_games};

    fn open(name: &str, options: &str) -> std::sync::Arc<dyn Game> {
        crate::open_game(name, &parse_options(options), None, Default::default()).unwrap()
    }

    #[test]
    fn perfect_players_never_lose_a_game_that_is_worth_a_draw() {
        for (name, options, first_wins) in
            [("tic-tac-toe", "", false), ("connect-four", "rows=4 cols=4", false), ("nim", "piles=[2,3,4]", true)]
        {
            let game = open(name, options);
            let best = BestActions::of(&*game).unwrap().unwrap();
            for perfect_first in [true, false] {
                let mut perfect = best.clone().player(&*game);
                let mut random = ScriptedPolicy::random_actions();
                let seats = match perfect_first {
                    true => Seats::Versus([&mut perfect, &mut random]),
                    false => Seats::Versus([&mut random, &mut perfect]),
                };
                let spec = |number| GameSpec {
                    number,
                    item: String::new(),
                    max_turns: 0,
                    seed: 7 + number as u64,
                    sampling_seed: None,
                };
                let mut games = CollectedGames::default();
                play_games(&*game, (0..40).map(spec), seats, &PlayConfig::default(), &mut games).unwrap();
                let own = game.labels().seats[usize::from(!perfect_first)];
                let won = games.finished.iter().filter(|game| game.verdict.winner() == Some(own)).count();
                let lost = games.finished.iter().filter(|game| game.verdict.winner().is_some()).count() - won;
                assert_eq!(games.finished.len(), 40);
                assert!(won > 5, "{name}: {won}");
                // The second player of Nim wins by the other's mistakes only.
                assert!(lost == 0 || (first_wins && !perfect_first), "{name}: {lost}");
                assert!(!(first_wins && perfect_first) || won == 40, "{name}: {won}");
            }
        }
    }

    #[test]
    fn best_actions_are_the_moves_that_count_as_kept() {
        let game = open("connect-four", "rows=4 cols=4");
        let mut best = BestActions::of(&*game).unwrap().unwrap();
        let columns = [0, 1, 0, 1, 0];
        let mut state = BestActions::start(&*game, 0).unwrap();
        columns.iter().for_each(|col| {
            state.apply(&format!("[col {col}]"));
        });
        let kept: Vec<String> = (0..4)
            .filter(|col| {
                let moves = [columns.as_slice(), &[*col]].concat();
                let [_, before] = connect_four::perfect_play(4, 4, &columns).unwrap();
                let [_, after] = connect_four::perfect_play(4, 4, &moves).unwrap();
                after.kept > before.kept
            })
            .map(|col| format!("[col {col}]"))
            .collect();
        // Anything but the column with three discs loses.
        assert_eq!((best.in_state(&*state), kept), (vec!["[col 0]".to_owned()], vec!["[col 0]".to_owned()]));
    }

    #[test]
    fn games_without_a_solution_have_none() {
        for (name, options) in [("connect-four", ""), ("kuhn-poker", ""), ("liars-dice", "")] {
            assert!(BestActions::of(&*open(name, options)).unwrap().is_none(), "{name}");
        }
    }
}
