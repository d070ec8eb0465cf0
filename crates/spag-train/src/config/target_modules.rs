//! The names of the modules that have an adapter, as a flag and as a key of files.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::de::MapAccess;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use spag_io::{Declared, Settings};

const NAME: &str = "lora_target_modules";

/// The names of the linear layers that have an adapter: `--lora_target_modules`, as one or several words, and the key
/// `lora_target_modules`, a text or a list of texts. Words are split at blanks and commas.
///
/// ```
/// use spag_train::TargetModules;
///
/// let one: TargetModules = serde_json::from_str(r#"{"lora_target_modules": "q_proj, v_proj"}"#)?;
/// let several: TargetModules = serde_json::from_str(r#"{"lora_target_modules": ["q_proj", "v_proj"]}"#)?;
/// assert_eq!(one, several);
/// assert_eq!(one, TargetModules::of(["q_proj v_proj"]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetModules(Option<Vec<String>>);

impl TargetModules {
    /// The names in some words.
    pub fn of<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> Self {
        let names = |word: W| {
            let names = word.as_ref().split([' ', ',']).filter(|name| !name.is_empty());
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        Self(Some(words.into_iter().flat_map(names).collect()))
    }

    /// The names; `None` for the default of a model.
    pub fn names(&self) -> Option<&[String]> {
        self.0.as_deref()
    }

    /// Whether modules are named.
    pub fn is_given(&self) -> bool {
        self.0.is_some()
    }
}

/// The flag.
#[derive(Args)]
#[command(rename_all = "snake_case")]
struct Flag {
    /// Names of the linear layers with an adapter, as several words or separated by commas, or all-linear [default: q_proj v_proj,
    /// or W_pack].
    #[arg(long, value_name = "NAME", num_args = 1.., help_heading = "Adapter")]
    lora_target_modules: Option<Vec<String>>,
}

impl From<Flag> for TargetModules {
    fn from(flag: Flag) -> Self {
        flag.lora_target_modules.map_or_else(Self::default, Self::of)
    }
}

impl Args for TargetModules {
    fn augment_args(command: Command) -> Command {
        Flag::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flag::augment_args_for_update(command)
    }
}

impl FromArgMatches for TargetModules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Flag::from_arg_matches(matches).map(Self::from)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The value of the key.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected names of modules: a text, or a list of texts")]
enum Words {
    One(String),
    Several(Vec<String>),
}

impl Settings for TargetModules {
    fn names() -> Vec<&'static str> {
        vec![NAME]
    }

    fn declared(&self) -> Vec<Declared> {
        let doc =
            "Names of the linear layers with an adapter, or `all-linear`; q_proj and v_proj, or W_pack, if absent.";
        vec![Declared::new(NAME, doc, None, &self.0, None)]
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name != NAME {
            return Ok(false);
        }
        *self = match map.next_value()? {
            Words::One(word) => Self::of([word]),
            Words::Several(words) => Self::of(words),
        };
        Ok(true)
    }

    fn check_numbers(&self) -> Result<(), (&'static str, String)> {
        Ok(())
    }
}

impl<'de> Deserialize<'de> for TargetModules {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read_all(deserializer)
    }
}

impl Serialize for TargetModules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(usize::from(self.is_given())))?;
        if let Some(names) = &self.0 {
            map.serialize_entry(NAME, names)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use crate::TrainConfig;

    #[test]
    fn files_have_a_text_or_a_list() {
        let read = |value: &str| {
            serde_json::from_str::<TrainConfig>(&format!(r#"{{"lora_r": 4, "lora_target_modules": {value}}}"#))
        };
        let expected = ["q_proj".to_owned(), "v_proj".to_owned()];
        for value in [r#""q_proj v_proj""#, r#""q_proj,v_proj""#, r#"["q_proj", "v_proj"]"#] {
            let config = read(value).unwrap();
            assert_eq!(config.lora_target_modules.names(), Some(&expected[..]), "{value}");
            let written = serde_json::to_value(&config).unwrap();
            assert_eq!(written["lora_target_modules"], serde_json::json!(expected));
            assert_eq!(serde_json::from_value::<TrainConfig>(written).unwrap(), config);
        }
        assert!(read("7").unwrap_err().to_string().contains("a text, or a list of texts"));
        let written = serde_json::to_value(TrainConfig::default()).unwrap();
        assert_eq!(written.get("lora_target_modules"), None);
    }
}
