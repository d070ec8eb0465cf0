//! Values of endings, in files under the names of the endings.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ending::Ending;
use crate::labels::Labels;
use crate::names;

/// A value of each ending of a game, in the order of reports. To be flattened into the object that has its keys.
///
/// ```
/// use spag_game::{JudgeKind, PerEnding};
/// let counts: PerEnding<u8> = PerEnding::of(JudgeKind::Paper.labels(), |ending| u8::from(ending.winner.is_none()));
/// let text = serde_json::to_string(&counts)?;
/// assert_eq!(text, r#"{"right_guess":0,"wrong_guess":0,"said_unknowingly":0,"broken_rule":0,"tie":1}"#);
/// assert_eq!(serde_json::from_str::<PerEnding<u8>>(&text)?, counts);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerEnding<T>(Vec<(Ending, T)>);

impl<T> PerEnding<T> {
    /// The value that `of` has for each ending of a game.
    pub fn of(labels: &Labels, mut of: impl FnMut(Ending) -> T) -> Self {
        Self(labels.endings.iter().map(|ending| (*ending, of(*ending))).collect())
    }

    /// The endings with their values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Ending, &T)> {
        self.0.iter().map(|(ending, value)| (*ending, value))
    }
}

impl<T: Serialize> Serialize for PerEnding<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (ending, value) in self.iter() {
            map.serialize_entry(ending.name, value)?;
        }
        map.end()
    }
}

/// Visits the values under the names of endings; other keys belong to the rest of the object.
struct Values<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Values<T> {
    type Value = Vec<(Ending, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the names of endings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match names::ending(&key) {
                Some(known) => found.push((known, map.next_value()?)),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        found.sort_by_key(|((place, _), _): &((usize, Ending), T)| *place);
        Ok(found.into_iter().map(|((_, ending), value)| (ending, value)).collect())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for PerEnding<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(deserializer.deserialize_map(Values(std::marker::PhantomData))?))
    }
}
