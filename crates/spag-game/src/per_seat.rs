//! Values of seats, in files under keys that are made of the names of the seats.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::labels::Labels;
use crate::names;
use crate::seat::{SEATS, Seat};

/// How a key is made of the name of a seat: `PREFIX`, the name, `SUFFIX`.
pub trait SeatKey {
    /// Before the name.
    const PREFIX: &'static str = "";
    /// After the name.
    const SUFFIX: &'static str = "";
}

/// The name of the seat alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatName;

impl SeatKey for SeatName {}

/// What a seat has in its games: `as_`, the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsSeat;

impl SeatKey for AsSeat {
    const PREFIX: &'static str = "as_";
}

/// A value of each seat. To be flattened into the object that has its keys.
///
/// ```
/// use spag_game::{AsSeat, JudgeKind, PerSeat};
/// let labels = JudgeKind::Paper.labels();
/// let points: PerSeat<usize, AsSeat> = PerSeat::of(labels, |seat| 3 - seat.index());
/// let [first, second] = labels.seats;
/// assert_eq!((points[first], points[second]), (3, 2));
/// assert_eq!(serde_json::to_string(&points)?, format!(r#"{{"as_{first}":3,"as_{second}":2}}"#));
/// let read = format!(r#"{{"as_{second}":2,"other":[],"as_{first}":3}}"#);
/// assert_eq!(serde_json::from_str::<PerSeat<usize, AsSeat>>(&read)?, points);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerSeat<T, K = SeatName> {
    seats: [Seat; SEATS],
    values: [T; SEATS],
    key: PhantomData<K>,
}

impl<T, K> PerSeat<T, K> {
    /// The value that `of` has for each seat of a game.
    pub fn of(labels: &Labels, of: impl FnMut(Seat) -> T) -> Self {
        Self { seats: labels.seats, values: labels.seats.map(of), key: PhantomData }
    }

    /// Values in the order of the seats.
    pub fn new(labels: &Labels, values: [T; SEATS]) -> Self {
        Self { seats: labels.seats, values, key: PhantomData }
    }

    /// The seats.
    pub fn seats(&self) -> [Seat; SEATS] {
        self.seats
    }

    /// The values in the order of the seats.
    pub fn values(&self) -> &[T; SEATS] {
        &self.values
    }

    /// The seats with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Seat, &T)> {
        self.seats.into_iter().zip(&self.values)
    }
}

impl<T, K> Index<Seat> for PerSeat<T, K> {
    type Output = T;

    fn index(&self, seat: Seat) -> &T {
        &self.values[seat.index()]
    }
}

/// A value of one seat. To be flattened into the object that has its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfSeat<T, K = SeatName> {
    /// The seat.
    pub seat: Seat,
    /// Its value.
    pub value: T,
    key: PhantomData<K>,
}

impl<T, K> OfSeat<T, K> {
    /// The value of a seat.
    pub fn new(seat: Seat, value: T) -> Self {
        Self { seat, value, key: PhantomData }
    }
}

fn key<K: SeatKey>(seat: Seat) -> String {
    format!("{}{seat}{}", K::PREFIX, K::SUFFIX)
}

fn seat_of<K: SeatKey>(key: &str) -> Option<Seat> {
    names::seat(key.strip_prefix(K::PREFIX)?.strip_suffix(K::SUFFIX)?)
}

impl<T: Serialize, K: SeatKey> Serialize for PerSeat<T, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(SEATS))?;
        for (seat, value) in self.iter() {
            map.serialize_entry(&key::<K>(seat), value)?;
        }
        map.end()
    }
}

impl<T: Serialize, K: SeatKey> Serialize for OfSeat<T, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(&key::<K>(self.seat), &self.value)?;
        map.end()
    }
}

/// Visits the values under the keys of seats; other keys belong to the rest of the object.
struct Values<T, K>(PhantomData<(T, K)>);

impl<'de, T: Deserialize<'de>, K: SeatKey> Visitor<'de> for Values<T, K> {
    type Value = Vec<(Seat, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with keys {}SEAT{}", K::PREFIX, K::SUFFIX)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match seat_of::<K>(&key) {
                Some(seat) => found.push((seat, map.next_value()?)),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        found.sort_by_key(|(seat, _): &(Seat, T)| *seat);
        Ok(found)
    }
}

impl<'de, T: Deserialize<'de>, K: SeatKey> Deserialize<'de> for PerSeat<T, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = deserializer.deserialize_map(Values::<T, K>(PhantomData))?;
        let [(first, one), (second, other)] = <[_; SEATS]>::try_from(found)
            .map_err(|_| D::Error::custom(format!("a key {}SEAT{} is missing", K::PREFIX, K::SUFFIX)))?;
        Ok(Self { seats: [first, second], values: [one, other], key: PhantomData })
    }
}

impl<'de, T: Deserialize<'de>, K: SeatKey> Deserialize<'de> for OfSeat<T, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = deserializer.deserialize_map(Values::<T, K>(PhantomData))?;
        let first = found.into_iter().next();
        let (seat, value) =
            first.ok_or_else(|| D::Error::custom(format!("a key {}SEAT{} is missing", K::PREFIX, K::SUFFIX)))?;
        Ok(Self { seat, value, key: PhantomData })
    }
}
