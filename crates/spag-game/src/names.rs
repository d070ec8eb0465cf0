//! Seats and endings by the names that they have in files.

use std::cell::Cell;
use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use crate::ending::{DRAW, Ending, INVALID};
use crate::games::{self, taboo, textarena};
use crate::labels::Labels;
use crate::seat::Seat;

thread_local! {
    static AT_HAND: Cell<Option<&'static Labels>> = const { Cell::new(None) };
}

/// Puts the labels back that were at hand before.
struct Before(Option<&'static Labels>);

impl Drop for Before {
    fn drop(&mut self) {
        AT_HAND.set(self.0);
    }
}

impl Labels {
    /// Runs `read`, which deserializes records or results of this game: names of seats and endings in them are this game's. Without it
    /// they are those of the games of this crate. It holds for the thread that calls it.
    pub fn reading<T>(&'static self, read: impl FnOnce() -> T) -> T {
        let _before = Before(AT_HAND.replace(Some(self)));
        read()
    }
}

/// The seat of this name in the game at hand, or else in one of this crate, or in a game that has no names for its seats.
pub(crate) fn seat(name: &str) -> Option<Seat> {
    let own = AT_HAND.get().into_iter().chain(games::labels()).flat_map(|labels| labels.seats);
    own.chain([Seat::FIRST, Seat::SECOND]).find(|seat| seat.name() == name)
}

/// The ending of this name in the game at hand, or else in one of this crate, with its place in the order of reports. Endings of
/// several games are last.
pub(crate) fn ending(name: &str) -> Option<(usize, Ending)> {
    let named = |endings: &mut dyn Iterator<Item = Ending>| endings.enumerate().find(|(_, ending)| ending.name == name);
    let own = AT_HAND.get().and_then(|labels| named(&mut labels.endings.iter().copied()));
    own.or_else(|| {
        let of_one_game = games::labels().flat_map(|labels| labels.endings).copied();
        let of_one_game = of_one_game.filter(|ending| ![DRAW, INVALID].contains(ending));
        named(&mut of_one_game.chain([textarena::WON, DRAW, INVALID]))
    })
}

impl<'de> Deserialize<'de> for Seat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(SeatName)
    }
}

struct SeatName;

impl Visitor<'_> for SeatName {
    type Value = Seat;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a seat")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Seat, E> {
        seat(name).ok_or_else(|| {
            let [first, second] = AT_HAND.get().unwrap_or(&taboo::LABELS).seats;
            E::custom(format_args!("unknown variant `{}`, expected `{first}` or `{second}`", spag_io::quote(name)))
        })
    }
}
