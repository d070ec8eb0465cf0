//! The results of an arena, as shown by every rendering.

use serde::{Deserialize, Serialize};
use spag_game::{AsSeat, Labels, OfSeat, PerSeat, Seat, SeatKey, Tally};

use super::elo::{Elo, EloScale, Seating, fit};
use super::pairings::Pairing;
use super::player::{NamedPlayer, player_index};
use crate::error::Result;
use crate::rate::Rate;
use crate::refusals::Refusals;
use crate::settings::GameSettings;

/// The settings of an arena, which determine its games.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArenaSettings {
    /// Games of each pairing.
    pub games: usize,
    /// Maximum turns of a game.
    pub max_turns: usize,
    /// Seed of the games.
    pub seed: u64,
    /// The game and its rules.
    #[serde(flatten)]
    pub rules: GameSettings,
    /// A description of the sampling settings.
    pub sampling: String,
    /// The player that is rated 1500; `None` if the mean is.
    pub anchor: Option<String>,
}

/// The results of an arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArenaTable {
    /// The settings.
    pub settings: ArenaSettings,
    /// The players, the highest rated first.
    pub players: Vec<Standing>,
    /// All pairings, in the order of play.
    pub pairings: Vec<PairingResult>,
    /// The advantage of the first seat, in Elo points.
    #[serde(flatten)]
    pub edge: OfSeat<Elo, Edge>,
    /// The first seat in all games.
    #[serde(flatten)]
    pub first_seat: OfSeat<SeatResult, Plural>,
}

/// The key of the advantage of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge;

impl SeatKey for Edge {
    const SUFFIX: &'static str = "_edge";
}

/// The key of all players of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plural;

impl SeatKey for Plural {
    const SUFFIX: &'static str = "s";
}

/// The results of a player. Games against itself are left out, since they would draw every rate to one half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The name.
    pub name: String,
    /// The checkpoint or endpoint, as given.
    pub player: String,
    /// The rating.
    pub elo: Elo,
    /// Both seats.
    pub both: SeatResult,
    /// Each seat.
    #[serde(flatten)]
    pub seats: PerSeat<SeatResult, AsSeat>,
}

/// The results of a pairing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairingResult {
    /// The names of the players.
    #[serde(flatten)]
    pub players: PerSeat<String>,
    /// The results of both in the same games.
    #[serde(flatten)]
    pub seats: PerSeat<SeatResult, AsSeat>,
}

/// The result of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatResult {
    /// Wins among the decided games. A broken rule is a loss.
    pub win: Rate,
    /// Finished games: decided and tied ones.
    pub games: usize,
    /// Ties.
    pub ties: usize,
    /// Games in which a rule was broken, in either seat.
    pub broken_rules: usize,
    /// Failed games, which count nowhere else.
    pub failed: usize,
    /// Refused utterances of the seat, in games that refuse some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusals: Option<Refusals>,
}

impl SeatResult {
    /// The result of `seat` in the games of `counts`.
    pub fn new(counts: &Tally, seat: Seat) -> Self {
        Self {
            win: Rate::of_wins(counts, seat),
            games: counts.games(),
            ties: counts.ties(),
            broken_rules: counts.broken_rules(),
            failed: counts.failed,
            refusals: Refusals::of_seat(counts, seat),
        }
    }

    /// The result of both together.
    fn pooled(self, other: Self) -> Self {
        Self {
            win: self.win.pooled(other.win),
            games: self.games + other.games,
            ties: self.ties + other.ties,
            broken_rules: self.broken_rules + other.broken_rules,
            failed: self.failed + other.failed,
            refusals: self.refusals.zip(other.refusals).map(|(one, other)| one.pooled(other)),
        }
    }
}

impl ArenaTable {
    /// Computes rates and ratings from the counts of every pairing.
    ///
    /// # Errors
    /// The anchor is no player.
    pub fn new(settings: ArenaSettings, players: &[NamedPlayer], results: &[(Pairing, Tally)]) -> Result<Self> {
        let labels = settings.rules.labels();
        let scale = match &settings.anchor {
            Some(name) => EloScale::Anchor(player_index(players, name)?),
            None => EloScale::Mean,
        };
        let seatings: Vec<Seating> = results.iter().map(|(pairing, counts)| seating(*pairing, counts)).collect();
        let fit = fit(players.len(), &seatings);
        let ratings = fit.ratings(scale).into_iter().zip(players).enumerate();
        let mut standings: Vec<Standing> =
            ratings.map(|(index, (elo, player))| standing(index, player, elo, labels, results)).collect();
        // Stable: players of equal rating keep their order.
        standings.sort_by(|a, b| b.elo.points.total_cmp(&a.elo.points));
        let name = |index: usize| players.get(index).map(|player| player.name.clone()).unwrap_or_default();
        let pairings = results.iter().map(|(pairing, counts)| PairingResult {
            players: PerSeat::new(labels, pairing.0.map(name)),
            seats: PerSeat::of(labels, |seat| SeatResult::new(counts, seat)),
        });
        let all = Tally::sum(labels, results.iter().map(|(_, counts)| counts));
        let [first, _] = labels.seats;
        Ok(Self {
            players: standings,
            pairings: pairings.collect(),
            edge: OfSeat::new(first, fit.edge()),
            first_seat: OfSeat::new(first, SeatResult::new(&all, first)),
            settings,
        })
    }
}

/// A win is a point of the first seat, a tie half a point.
fn seating(Pairing(players): Pairing, counts: &Tally) -> Seating {
    let [first, _] = counts.labels().seats;
    let points = counts.wins(first) as f64 + 0.5 * counts.ties() as f64;
    Seating { players, games: counts.games() as f64, points }
}

fn standing(
    index: usize,
    player: &NamedPlayer,
    elo: Elo,
    labels: &'static Labels,
    results: &[(Pairing, Tally)],
) -> Standing {
    let seats = PerSeat::of(labels, |seat| {
        let own = |Pairing(players): Pairing| {
            let others = players.iter().filter(|player| **player != index).count();
            players[seat.index()] == index && others > 0
        };
        let games = results.iter().filter(|(pairing, _)| own(*pairing)).map(|(_, counts)| counts);
        SeatResult::new(&Tally::sum(labels, games), seat)
    });
    let [first, second] = *seats.values();
    Standing { name: player.name.clone(), player: player.player.to_string(), elo, both: first.pooled(second), seats }
}

#[cfg(test)]
pub(super) mod tests {
    use spag_game::{Verdict, taboo};

    use super::*;

    /// Counts of attacker wins, right guesses, broken rules, ties and failed games.
    fn counts(wins: usize, guesses: usize, broken_rules: usize, ties: usize, failed: usize) -> Tally {
        let mut counts = Tally::new(&taboo::LABELS);
        counts.failed = failed;
        let verdicts = [
            Verdict::of(taboo::WRONG_GUESS, 2),
            Verdict::of(taboo::RIGHT_GUESS, 2),
            Verdict::of(taboo::BROKEN_RULE, 2),
            Verdict::of(taboo::TIE, 2),
        ];
        for (verdict, games) in verdicts.into_iter().zip([wins, guesses, broken_rules, ties]) {
            (0..games).for_each(|_| counts.add(&verdict));
        }
        counts
    }

    /// Two players that also play against themselves; the name of one needs quotes.
    pub(in crate::arena) fn example(anchor: Option<&str>) -> ArenaTable {
        let players: Vec<NamedPlayer> =
            ["im=m/im", "big, \"new\"=m/big"].iter().map(|text| text.parse().unwrap()).collect();
        let at = |first, second| Pairing([first, second]);
        let results = [
            (at(0, 0), counts(5, 5, 0, 0, 0)),
            (at(0, 1), counts(2, 5, 1, 2, 0)),
            (at(1, 0), counts(6, 1, 1, 1, 1)),
            (at(1, 1), counts(4, 4, 1, 1, 0)),
        ];
        let settings = ArenaSettings {
            games: 10,
            max_turns: 5,
            seed: 7,
            rules: GameSettings::default(),
            sampling: "temperature=1.2".into(),
            anchor: anchor.map(str::to_owned),
        };
        ArenaTable::new(settings, &players, &results).unwrap()
    }

    #[test]
    fn players_are_sorted_by_rating_and_self_play_does_not_count() {
        let table = example(None);
        let [big, im] = &table.players[..] else { panic!() };
        assert_eq!((big.name.as_str(), big.player.as_str(), im.name.as_str()), ("big, \"new\"", "m/big", "im"));
        assert_eq!(
            (big.seats[taboo::ATTACKER].win, big.seats[taboo::DEFENDER].win),
            (Rate::new(6, 8), Rate::new(6, 8))
        );
        assert_eq!((im.seats[taboo::ATTACKER].win, im.seats[taboo::DEFENDER].win), (Rate::new(2, 8), Rate::new(2, 8)));
        assert_eq!((big.both.win, im.both.win), (Rate::new(12, 16), Rate::new(4, 16)));
        let both =
            SeatResult { win: Rate::new(12, 16), games: 19, ties: 3, broken_rules: 2, failed: 1, refusals: None };
        assert_eq!(big.both, both);
        assert!(big.elo.points > im.elo.points && (big.elo.points + im.elo.points - 3000.0).abs() < 1e-6);
        // 17 of 35 decided games.
        assert_eq!((table.first_seat.value.win, table.first_seat.value.games), (Rate::new(17, 35), 39));
        assert_eq!(table.pairings.len(), 4);
        assert_eq!(table.pairings[1].seats[taboo::DEFENDER].win, Rate::new(6, 8));
    }

    #[test]
    fn anchor_is_rated_1500_and_keeps_differences() {
        let (free, anchored) = (example(None), example(Some("im")));
        let points = |table: &ArenaTable| [table.players[0].elo.points, table.players[1].elo.points];
        assert_eq!(points(&anchored)[1], 1500.0);
        let apart = |table: &ArenaTable| points(table)[0] - points(table)[1];
        assert!((apart(&free) - apart(&anchored)).abs() < 1e-9);
        let players = ["a=m".parse().unwrap(), "b=m".parse().unwrap()];
        let settings = ArenaSettings { anchor: Some("c".into()), ..free.settings };
        assert!(ArenaTable::new(settings, &players, &[]).is_err());
    }
}
