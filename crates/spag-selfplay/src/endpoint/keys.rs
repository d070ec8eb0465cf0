//! Which key is sent to which endpoint of a run.

use std::collections::BTreeSet;

use super::key::{ApiKey, COMMON_VARIABLE};
use super::spec::EndpointSpec;
use crate::error::{Error, Result};
use crate::player_spec::PlayerSpec;

/// The keys of the endpoints of a run.
///
/// An endpoint that names a variable gets its key, at all of its URLs, and no other. `OPENAI_API_KEY` is the key of the others if all
/// endpoints of the run are on one host; with several hosts it is sent to none, since a key must not reach a server that
/// it is not meant for.
///
/// ```
/// use spag_selfplay::{EndpointKeys, PlayerSpec};
/// let players: Vec<PlayerSpec> = vec!["runs/im/model".parse()?, "openai:http://localhost:8000/v1#m".parse()?];
/// let keys = EndpointKeys::with(&players, &|_| Ok(None))?;
/// assert!(keys.notes().is_empty());
/// # Ok::<(), spag_selfplay::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EndpointKeys {
    keys: Vec<(EndpointSpec, Option<ApiKey>)>,
    /// Endpoints that do not get the common key.
    without: Vec<String>,
}

impl EndpointKeys {
    /// The keys of the environment for these players.
    ///
    /// # Errors
    /// An endpoint names a variable that is not set, or a key is not visible ASCII.
    pub fn from_env<'a>(players: impl IntoIterator<Item = &'a PlayerSpec>) -> Result<Self> {
        Self::with(players, &ApiKey::from_variable)
    }

    /// As [`EndpointKeys::from_env`], with `lookup` in place of the environment.
    ///
    /// # Errors
    /// As [`EndpointKeys::from_env`].
    pub fn with<'a>(
        players: impl IntoIterator<Item = &'a PlayerSpec>,
        lookup: &dyn Fn(&str) -> Result<Option<ApiKey>>,
    ) -> Result<Self> {
        let endpoints: Vec<&EndpointSpec> = players
            .into_iter()
            .filter_map(|player| match player {
                PlayerSpec::Endpoint(endpoint) => Some(endpoint),
                PlayerSpec::Model(_) | PlayerSpec::Adapted { .. } => None,
            })
            .collect();
        let hosts: BTreeSet<String> = endpoints.iter().flat_map(|endpoint| endpoint.hosts()).collect();
        let is_one_host = hosts.len() <= 1;
        let mut all = Self::default();
        for endpoint in endpoints {
            let key = match &endpoint.key_variable {
                Some(variable) => {
                    let missing = || Error::MissingKey { variable: variable.clone(), endpoint: endpoint.address() };
                    Some(lookup(variable)?.ok_or_else(missing)?)
                }
                None => lookup(COMMON_VARIABLE)?,
            };
            let is_withheld = endpoint.key_variable.is_none() && !is_one_host && key.is_some();
            let urls = endpoint.servers.to_string();
            if is_withheld && !all.without.contains(&urls) {
                all.without.push(urls);
            }
            all.keys.push((endpoint.clone(), key.filter(|_| !is_withheld)));
        }
        Ok(all)
    }

    /// The key of an endpoint.
    pub fn of(&self, endpoint: &EndpointSpec) -> Option<ApiKey> {
        self.keys.iter().find(|(of, _)| of == endpoint).and_then(|(_, key)| key.clone())
    }

    /// What the user should know, a line each: endpoints that do not get the common key.
    pub fn notes(&self) -> Vec<String> {
        let note = |url: &String| {
            format!(
                "{COMMON_VARIABLE} is not sent to {}, since the endpoints are on several hosts; name the variable of \
                 its key in the player: openai:NAME_API_KEY@{}#MODEL",
                spag_io::quote(url),
                spag_io::quote(url)
            )
        };
        self.without.iter().map(note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys for players in an environment in which every variable but UNSET_API_KEY holds `key of NAME`.
    fn keys(players: &[&str]) -> Result<(Vec<Option<String>>, usize)> {
        let players: Vec<PlayerSpec> = players.iter().map(|text| text.parse().unwrap()).collect();
        let lookup = |name: &str| match name {
            "UNSET_API_KEY" => Ok(None),
            name => ApiKey::new(&format!("key-of-{name}")).map(Some),
        };
        let keys = EndpointKeys::with(&players, &lookup)?;
        let endpoints = players.iter().filter_map(|player| match player {
            PlayerSpec::Endpoint(endpoint) => Some(keys.of(endpoint).map(|key| key.bearer())),
            PlayerSpec::Model(_) | PlayerSpec::Adapted { .. } => None,
        });
        Ok((endpoints.collect(), keys.notes().len()))
    }

    #[test]
    fn common_key_is_sent_to_a_single_host_only() {
        let common = || Some("Bearer key-of-OPENAI_API_KEY".to_owned());
        let one = ["folder", "openai:http://a:80/v1#m", "openai-completions:http://A/v1#n"];
        assert_eq!(keys(&one).unwrap(), (vec![common(), common()], 0));
        let two = ["openai:http://a/v1#m", "openai:http://a:81/v1#m", "openai:http://a/v1#n"];
        assert_eq!(keys(&two).unwrap(), (vec![None, None, None], 2));
        // A pool on one host, and on two.
        assert_eq!(keys(&["openai:http://a/v1,http://a/v2#m"]).unwrap(), (vec![common()], 0));
        assert_eq!(keys(&["openai:http://a/v1,http://b/v1#m"]).unwrap(), (vec![None], 1));
    }

    #[test]
    fn named_key_is_sent_to_its_endpoint_only() {
        let named = |name: &str| Some(format!("Bearer key-of-{name}"));
        let players = [
            "openai:A_API_KEY@http://a/v1,http://d/v1#m",
            "openai:OPENAI_API_KEY@http://b/v1#m",
            "openai:http://c/v1#m",
        ];
        assert_eq!(keys(&players).unwrap(), (vec![named("A_API_KEY"), named("OPENAI_API_KEY"), None], 1));
        let said = keys(&["openai:UNSET_API_KEY@http://a/v1#m"]).unwrap_err().to_string();
        assert!(said.contains("UNSET_API_KEY") && said.contains("http://a/v1#m"), "{said}");
    }
}
