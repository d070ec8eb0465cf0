//! Tables whose keys belong to several structs.
//!
//! serde's `flatten` loses the place of an error and the names of known keys.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use toml::{Table, Value};

/// The settings of one struct.
pub(super) struct Part {
    names: &'static [&'static str],
    check: fn(Table) -> Result<(), toml::de::Error>,
    values: Table,
}

impl Part {
    /// The settings of `T`, which has a default for each.
    pub(super) fn new<T: DeserializeOwned>() -> Self {
        Self {
            names: spag_io::field_names::<T>(),
            check: |table| T::deserialize(table).map(drop),
            values: Table::new(),
        }
    }

    /// The struct, after [`read`].
    pub(super) fn finish<T: DeserializeOwned, E: Error>(self) -> Result<T, E> {
        T::deserialize(self.values).map_err(E::custom)
    }
}

/// Reads a table whose keys are those of the parts. Each value is checked when it is read, so that an error has its place.
pub(super) fn read<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
    parts: [Part; N],
) -> Result<[Part; N], D::Error> {
    deserializer.deserialize_map(Parts(parts))
}

struct Parts<const N: usize>([Part; N]);

impl<'de, const N: usize> Visitor<'de> for Parts<N> {
    type Value = [Part; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<[Part; N], A::Error> {
        let Self(mut parts) = self;
        while let Some((part, key)) = map.next_key_seed(Key(&parts))? {
            map.next_value_seed(ValueOf { part: &mut parts[part], key })?;
        }
        Ok(parts)
    }
}

/// Reads a key and finds its part.
struct Key<'a>(&'a [Part]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = (usize, String);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(usize, String), D::Error> {
        let key = String::deserialize(deserializer)?;
        match self.0.iter().position(|part| part.names.contains(&key.as_str())) {
            Some(part) => Ok((part, key)),
            None => {
                let names: Vec<String> =
                    self.0.iter().flat_map(|part| part.names).map(|name| format!("`{name}`")).collect();
                Err(D::Error::custom(format_args!("unknown field `{key}`, expected one of {}", names.join(", "))))
            }
        }
    }
}

/// Reads the value of a key into its part.
struct ValueOf<'a> {
    part: &'a mut Part,
    key: String,
}

impl<'de> DeserializeSeed<'de> for ValueOf<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value = Value::deserialize(deserializer)?;
        let alone = Table::from_iter([(self.key.clone(), value.clone())]);
        (self.part.check)(alone).map_err(|error| D::Error::custom(error.message()))?;
        self.part.values.insert(self.key, value);
        Ok(())
    }
}
