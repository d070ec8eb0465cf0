//! The results of an arena: one value that every rendering shows.

use serde::{Deserialize, Serialize};
use spag_game::{JudgeKind, Role};

use super::counts::Counts;
use super::elo::{Elo, EloScale, Seating, fit};
use super::entrant::{Entrant, position};
use super::pairings::Pairing;
use crate::error::Result;
use crate::stats::Rate;

/// What was played; the same settings give the same games.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArenaSettings {
    /// Games of each pairing in each seating.
    pub games: usize,
    /// Turns of a game at most.
    pub max_turns: usize,
    /// Seed of the games.
    pub seed: u64,
    /// The rules.
    pub judge: JudgeKind,
    /// How the players chose their words, in words.
    pub sampling: String,
    /// The player that is rated 1500; nothing where that is the mean.
    pub anchor: Option<String>,
}

/// The results of an arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArenaTable {
    /// What was played.
    pub settings: ArenaSettings,
    /// The players, the highest rated first.
    pub players: Vec<Standing>,
    /// Every pairing, in the order in which they are played.
    pub pairings: Vec<Match>,
    /// What the attacker's seat is worth, in Elo points.
    pub attacker_edge: Elo,
    /// How attackers did over all games.
    pub attackers: SeatResult,
}

/// What became of a player.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its name.
    pub name: String,
    /// The checkpoint or endpoint, as it was given.
    pub player: String,
    /// Its rating.
    pub elo: Elo,
    /// Both seats together. Like the two below, without games against itself, which would draw every rate to one half.
    pub both: SeatResult,
    /// Its games as attacker.
    pub as_attacker: SeatResult,
    /// Its games as defender.
    pub as_defender: SeatResult,
}

/// What became of two players in fixed seats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// Who attacked.
    pub attacker: String,
    /// Who defended.
    pub defender: String,
    /// The games as the attacker sees them.
    pub as_attacker: SeatResult,
    /// The same games as the defender sees them.
    pub as_defender: SeatResult,
}

/// Games from the point of view of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatResult {
    /// Wins among the decided games. A broken rule is the attacker's loss.
    pub win: Rate,
    /// Games played to their end: decided and tied ones.
    pub games: usize,
    /// Games that nobody won.
    pub ties: usize,
    /// Games in which the attacker broke a rule, whoever that was.
    pub broken_rules: usize,
    /// Games that could not be played to their end; they count nowhere else.
    pub failed: usize,
}

impl SeatResult {
    /// The games of `counts` as `seat` sees them.
    pub fn new(counts: &Counts, seat: Role) -> Self {
        Self {
            win: counts.win(seat),
            games: counts.games(),
            ties: counts.ties,
            broken_rules: counts.broken_rules,
            failed: counts.failed,
        }
    }

    /// Both taken together.
    fn pooled(self, other: Self) -> Self {
        Self {
            win: self.win.pooled(other.win),
            games: self.games + other.games,
            ties: self.ties + other.ties,
            broken_rules: self.broken_rules + other.broken_rules,
            failed: self.failed + other.failed,
        }
    }
}

impl ArenaTable {
    /// Rates and ratings from the counts of every pairing.
    ///
    /// # Errors
    /// The settings name an anchor that is no player.
    pub fn new(settings: ArenaSettings, entrants: &[Entrant], results: &[(Pairing, Counts)]) -> Result<Self> {
        let scale = match &settings.anchor {
            Some(name) => EloScale::Anchor(position(entrants, name)?),
            None => EloScale::Mean,
        };
        let seatings: Vec<Seating> = results.iter().map(|(pairing, counts)| seating(*pairing, counts)).collect();
        let fit = fit(entrants.len(), &seatings);
        let ratings = fit.ratings(scale).into_iter().zip(entrants).enumerate();
        let mut players: Vec<Standing> =
            ratings.map(|(player, (elo, entrant))| standing(player, entrant, elo, results)).collect();
        // Stable: players of one rating stay as they were given.
        players.sort_by(|a, b| b.elo.points.total_cmp(&a.elo.points));
        let name = |player: usize| entrants.get(player).map(|entrant| entrant.name.clone()).unwrap_or_default();
        let pairings = results.iter().map(|(pairing, counts)| Match {
            attacker: name(pairing.attacker),
            defender: name(pairing.defender),
            as_attacker: SeatResult::new(counts, Role::Attacker),
            as_defender: SeatResult::new(counts, Role::Defender),
        });
        let all = results.iter().fold(Counts::default(), |all, (_, counts)| all.and(*counts));
        Ok(Self {
            settings,
            players,
            pairings: pairings.collect(),
            attacker_edge: fit.attacker_edge(),
            attackers: SeatResult::new(&all, Role::Attacker),
        })
    }
}

fn seating(pairing: Pairing, counts: &Counts) -> Seating {
    let Pairing { attacker, defender } = pairing;
    Seating { attacker, defender, games: counts.games() as f64, points: counts.attacker_points() }
}

fn standing(player: usize, entrant: &Entrant, elo: Elo, results: &[(Pairing, Counts)]) -> Standing {
    let seat = |role: Role| {
        let there = results.iter().filter(|(pairing, _)| {
            let (own, other) = match role {
                Role::Attacker => (pairing.attacker, pairing.defender),
                Role::Defender => (pairing.defender, pairing.attacker),
            };
            own == player && other != player
        });
        SeatResult::new(&there.fold(Counts::default(), |all, (_, counts)| all.and(*counts)), role)
    };
    let (as_attacker, as_defender) = (seat(Role::Attacker), seat(Role::Defender));
    Standing {
        name: entrant.name.clone(),
        player: entrant.player.to_string(),
        elo,
        both: as_attacker.pooled(as_defender),
        as_attacker,
        as_defender,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn counts(attacker_wins: usize, defender_wins: usize, broken_rules: usize, ties: usize, failed: usize) -> Counts {
        Counts { attacker_wins, defender_wins, broken_rules, ties, failed }
    }

    /// Two players, with games against themselves; a name that needs quotes.
    pub(in crate::arena) fn example(anchor: Option<&str>) -> ArenaTable {
        let entrants: Vec<Entrant> =
            ["im=m/im", "big, \"new\"=m/big"].iter().map(|text| text.parse().unwrap()).collect();
        let at = |attacker, defender| Pairing { attacker, defender };
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
            judge: JudgeKind::Paper,
            sampling: "temperature=1.2".into(),
            anchor: anchor.map(str::to_owned),
        };
        ArenaTable::new(settings, &entrants, &results).unwrap()
    }

    #[test]
    fn the_winner_stands_first_and_games_against_itself_are_no_wins() {
        let table = example(None);
        let [big, im] = &table.players[..] else { panic!() };
        assert_eq!((big.name.as_str(), big.player.as_str(), im.name.as_str()), ("big, \"new\"", "m/big", "im"));
        assert_eq!((big.as_attacker.win, big.as_defender.win), (Rate::new(6, 8), Rate::new(6, 8)));
        assert_eq!((im.as_attacker.win, im.as_defender.win), (Rate::new(2, 8), Rate::new(2, 8)));
        assert_eq!((big.both.win, im.both.win), (Rate::new(12, 16), Rate::new(4, 16)));
        let both = SeatResult { win: Rate::new(12, 16), games: 19, ties: 3, broken_rules: 2, failed: 1 };
        assert_eq!(big.both, both);
        assert!(big.elo.points > im.elo.points && (big.elo.points + im.elo.points - 3000.0).abs() < 1e-6);
        // 17 of 35 decided games.
        assert_eq!((table.attackers.win, table.attackers.games), (Rate::new(17, 35), 39));
        assert_eq!(table.pairings.len(), 4);
        assert_eq!(table.pairings[1].as_defender.win, Rate::new(6, 8));
    }

    #[test]
    fn an_anchor_is_1500_and_moves_nobody_against_another() {
        let (free, anchored) = (example(None), example(Some("im")));
        let points = |table: &ArenaTable| [table.players[0].elo.points, table.players[1].elo.points];
        assert_eq!(points(&anchored)[1], 1500.0);
        let apart = |table: &ArenaTable| points(table)[0] - points(table)[1];
        assert!((apart(&free) - apart(&anchored)).abs() < 1e-9);
        let entrants = ["a=m".parse().unwrap(), "b=m".parse().unwrap()];
        let settings = ArenaSettings { anchor: Some("c".into()), ..free.settings };
        assert!(ArenaTable::new(settings, &entrants, &[]).is_err());
    }
}
