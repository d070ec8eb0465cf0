//! Players as written on a command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ureq::http::Uri;

use crate::endpoint::PromptStyle;
use crate::error::{Error, Result};

/// Longest name of a model in bytes.
const LONGEST_MODEL: usize = 500;
/// Longest name of a variable in bytes.
const LONGEST_VARIABLE: usize = 100;

/// A checkpoint or an endpoint.
///
/// Parsed from and displayed as `FOLDER`, `openai:http://HOST:PORT/v1#MODEL` or
/// `openai-completions:http://HOST:PORT/v1#MODEL`; `https:` is allowed too. The environment variable with an endpoint's
/// own key comes before the address: `openai:NAME_API_KEY@https://HOST/v1#MODEL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlayerSpec {
    /// A Hugging Face folder.
    Model(PathBuf),
    /// A model behind an OpenAI-compatible server.
    Endpoint(EndpointSpec),
}

/// A model behind a server with the OpenAI protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSpec {
    /// The URL before `/chat/completions`, without a final slash: `http://localhost:8000/v1`.
    pub base_url: String,
    /// The server's name of the model.
    pub model: String,
    /// The format of prompts.
    pub style: PromptStyle,
    /// The environment variable with the key. `None`: `OPENAI_API_KEY`, if all endpoints of the run are on one host.
    pub key_variable: Option<String>,
}

impl EndpointSpec {
    /// The endpoint without the variable of its key, which does not change utterances: for records of games.
    pub fn address(&self) -> String {
        format!("{}{}#{}", self.style.scheme(), self.base_url, self.model)
    }

    /// Scheme, host and port: where a key is sent to.
    pub(crate) fn host(&self) -> String {
        let uri: Option<Uri> = self.base_url.parse().ok();
        let part = |uri: &Uri| {
            let scheme = uri.scheme_str()?.to_lowercase();
            let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
            Some(format!("{scheme}://{}:{port}", uri.host()?.to_lowercase()))
        };
        uri.as_ref().and_then(part).unwrap_or_else(|| self.base_url.clone())
    }
}

impl FromStr for PlayerSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        for style in PromptStyle::ALL {
            if let Some(rest) = text.strip_prefix(style.scheme()) {
                return endpoint(rest, style).map(Self::Endpoint).map_err(|problem| bad(text, problem));
            }
        }
        match text {
            "" => Err(bad(text, "it is empty")),
            _ if text.starts_with("http://") || text.starts_with("https://") => {
                Err(bad(text, "it must start with openai: or openai-completions:"))
            }
            _ if text.starts_with("openai-") && text.contains("://") => {
                Err(bad(text, "the protocols are openai: and openai-completions:"))
            }
            folder => Ok(Self::Model(folder.into())),
        }
    }
}

fn endpoint(text: &str, style: PromptStyle) -> Result<EndpointSpec, &'static str> {
    let (address, model) = text.split_once('#').ok_or("the model's name is missing, after a #")?;
    let (key_variable, url) = match address.split_once('@') {
        // Otherwise the @ follows a password in the URL.
        Some((variable, url)) if !variable.contains("://") => (Some(key_variable(variable)?), url),
        _ => (None, address),
    };
    if model.trim().is_empty() {
        return Err("the model's name after the # is empty");
    }
    if model.chars().any(char::is_control) || model.len() > LONGEST_MODEL {
        return Err("the model's name after the # is longer than 500 bytes or has a control character");
    }
    let base_url = url.trim_end_matches('/');
    let uri: Uri = url.parse().map_err(|_| "the address before the # is not a URL")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("the address must start with http:// or https://");
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(
            "the address must not contain a password; put the key into the variable OPENAI_API_KEY, or into another one that \
             the player names: openai:NAME_API_KEY@http://…",
        );
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return Err("the address must be a host with a path, without a query");
    }
    if base_url.ends_with("/completions") {
        return Err("the address must end before /chat/completions or /completions, which are added");
    }
    Ok(EndpointSpec { base_url: base_url.to_owned(), model: model.to_owned(), style, key_variable })
}

/// The name of a variable with a key. Its ending keeps other secrets of the environment from being sent.
fn key_variable(name: &str) -> Result<String, &'static str> {
    let is_upper = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = name.bytes().all(is_upper) && name.starts_with(|c: char| !c.is_ascii_digit());
    if !is_name || !name.ends_with("_API_KEY") || name.len() > LONGEST_VARIABLE {
        return Err("the text before the @ must be an environment variable of the form NAME_API_KEY, not a key");
    }
    Ok(name.to_owned())
}

fn bad(text: &str, problem: &'static str) -> Error {
    let syntax =
        "an endpoint is written openai:http://HOST:PORT/v1#MODEL or openai:NAME_API_KEY@http://HOST:PORT/v1#MODEL";
    Error::BadPlayer { text: without_password(text), problem, syntax }
}

/// The text of a player for a message, without `user:password@` and without a key in place of its variable.
pub(crate) fn without_password(text: &str) -> String {
    let text = match (text.find("://"), text.rfind('@')) {
        (Some(from), Some(to)) if from + 3 < to => format!("{}…{}", &text[..from + 3], &text[to..]),
        _ => text.to_owned(),
    };
    let scheme = PromptStyle::ALL.iter().find_map(|style| Some(text.find(style.scheme())? + style.scheme().len()));
    let (Some(from), Some(to)) = (scheme, text.find("@http")) else { return text };
    match text.get(from..to) {
        Some(name) if !name.contains("://") && key_variable(name).is_err() => {
            format!("{}…{}", &text[..from], &text[to..])
        }
        _ => text,
    }
}

impl fmt::Display for PlayerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(folder) => folder.display().fmt(f),
            Self::Endpoint(endpoint) => endpoint.fmt(f),
        }
    }
}

impl fmt::Display for EndpointSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.style.scheme();
        match &self.key_variable {
            Some(variable) => write!(f, "{scheme}{variable}@{}#{}", self.base_url, self.model),
            None => f.write_str(&self.address()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_by_scheme_name_and_port() {
        let host = |text: &str| match text.parse().unwrap() {
            PlayerSpec::Endpoint(spec) => spec.host(),
            PlayerSpec::Model(_) => panic!("{text}"),
        };
        assert_eq!(host("openai:https://A.example/v1#m"), host("openai-completions:https://a.example:443/v2#n"));
        for other in ["openai:http://a.example/v1#m", "openai:https://a.example:8443/v1#m", "openai:https://b/v1#m"] {
            assert_ne!(host("openai:https://a.example/v1#m"), host(other), "{other}");
        }
    }

    #[test]
    fn specs_round_trip_through_text() {
        for text in [
            "openai:http://localhost:8000/v1#llama",
            "openai:https://models.example/v1#org/model-7b:latest",
            "openai-completions:http://[::1]:8080/v1#m",
            "openai:OPENAI_API_KEY@https://a/v1#m@2",
            "openai-completions:GROQ_2_API_KEY@http://a/v1#m",
            "runs/tiny/im/model",
            "./openai:odd",
        ] {
            let spec: PlayerSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(matches!(spec, PlayerSpec::Endpoint(_)), text.starts_with("openai"));
        }
        let slash: PlayerSpec = "openai:http://a/v1/#m".parse().unwrap();
        assert_eq!(slash.to_string(), "openai:http://a/v1#m");
    }

    #[test]
    fn invalid_specs_are_refused_with_the_reason() {
        for (text, part) in [
            ("", "empty"),
            ("openai:http://a/v1", "model's name is missing"),
            ("openai:http://a/v1# ", "after the # is empty"),
            ("openai:localhost:8000#m", "http://"),
            ("openai:ftp://a/v1#m", "http://"),
            ("openai:http://#m", "URL"),
            ("openai:http://a b/v1#m", "URL"),
            ("openai:http://a/v1?key=1#m", "query"),
            ("openai:http://a/v1/chat/completions#m", "which are added"),
            ("openai-chat:http://a/v1#m", "openai-completions:"),
            ("http://a/v1#m", "must start with openai:"),
        ] {
            let said = text.parse::<PlayerSpec>().unwrap_err().to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
        let long = format!("openai:http://a/v1#{}", "m".repeat(501));
        for text in ["openai:http://a/v1#a\nb", &long] {
            assert!(text.parse::<PlayerSpec>().unwrap_err().to_string().contains("control character"));
        }
        for text in [
            "openai:sk-secret@http://a/v1#m",
            "openai:AWS_SECRET_ACCESS_KEY_secret@http://a/v1#m",
            "openai:secret_API_KEY@http://a/v1#m",
            "IM=openai-completions:sk-secret@https://a/v1#m",
        ] {
            let said = text.parse::<PlayerSpec>().map_err(|error| error.to_string());
            let said = said.err().unwrap_or_else(|| without_password(text));
            assert!(!said.contains("secret"), "{said}");
            assert!(said.contains("NAME_API_KEY, not a key") || text.starts_with("IM"), "{said}");
        }
        assert!("openai:PATH@http://a/v1#m".parse::<PlayerSpec>().is_err());
        let said = "openai:http://me:secret@a/v1#m".parse::<PlayerSpec>().unwrap_err().to_string();
        assert!(said.contains("OPENAI_API_KEY") && !said.contains("secret"), "{said}");
    }
}
