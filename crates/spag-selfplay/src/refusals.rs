//! Refused utterances: invalid moves as a statistic of their own.

use serde::{Deserialize, Serialize};
use spag_game::{PerSeat, Seat, Tally};

use crate::rate::Rate;

/// What a game refused of the utterances of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusals {
    /// Refused utterances among all of the seat, up to the end of each game.
    pub refused: Rate,
    /// Games that the seat lost by them.
    pub games_lost: usize,
}

impl Refusals {
    /// The refusals of one seat; `None` for a game that refuses nothing, as Adversarial Taboo.
    pub fn of_seat(games: &Tally, seat: Seat) -> Option<Self> {
        let refused = || Rate::new(games.refused(seat), games.utterances_of(seat));
        games.labels().has_refusals().then(|| Self { refused: refused(), games_lost: games.lost_by_refusals(seat) })
    }

    /// The refusals of each seat, as [`Refusals::of_seat`].
    pub fn of(games: &Tally) -> Option<PerSeat<Self>> {
        let [one, other] = games.labels().seats.map(|seat| Self::of_seat(games, seat));
        Some(PerSeat::new(games.labels(), [one?, other?]))
    }

    /// The refusals of both together.
    pub fn pooled(self, other: Self) -> Self {
        Self { refused: self.refused.pooled(other.refused), games_lost: self.games_lost + other.games_lost }
    }
}

#[cfg(test)]
mod tests {
    use spag_game::{CollectedGames, PlayConfig, ScriptedPolicy, Seats, game_labels, open_game, play_games};
    use spag_io::PromptFormat;

    use super::*;
    use crate::game_specs;

    #[test]
    fn refusals_of_each_seat_are_counted_and_those_that_lose_a_game() {
        let game = open_game("tic-tac-toe", &Default::default(), None, PromptFormat::Plain).unwrap();
        // Player 0 takes a free cell after one refusal, and player 1 loses by two.
        let mut player = ScriptedPolicy::lines(["[9]", "[4]", "[4]", "[4]"]);
        let mut played = CollectedGames::default();
        let (specs, config) = (game_specs([String::new()].iter(), 0, 1), PlayConfig::default());
        play_games(&*game, specs, Seats::SelfPlay(&mut player), &config, &mut played).unwrap();
        let mut tally = Tally::new(game.labels());
        played.finished.iter().for_each(|game| tally.add_game(&game.episode, &game.verdict));
        let [first, second] = game.labels().seats;
        let refusals = Refusals::of(&tally).unwrap();
        assert_eq!(refusals[first], Refusals { refused: Rate::new(1, 2), games_lost: 0 });
        assert_eq!(refusals[second], Refusals { refused: Rate::new(2, 2), games_lost: 1 });
        assert_eq!(Tally::sum(game.labels(), [&tally, &tally]).refused(second), 4);
        assert_eq!(Refusals::of(&Tally::new(game_labels("taboo").unwrap())), None);
    }
}
