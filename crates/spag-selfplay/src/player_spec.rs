//! Players as written on a command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ureq::http::Uri;

use crate::endpoint::PromptStyle;
use crate::error::{Error, Result};

/// A checkpoint or an endpoint.
///
/// Parsed from and displayed as `FOLDER`, `openai:http://HOST:PORT/v1#MODEL` or
/// `openai-completions:http://HOST:PORT/v1#MODEL`; `https:` is allowed too.
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
    let (url, model) = text.split_once('#').ok_or("the model's name is missing, after a #")?;
    if model.trim().is_empty() {
        return Err("the model's name after the # is empty");
    }
    let base_url = url.trim_end_matches('/');
    let uri: Uri = url.parse().map_err(|_| "the address before the # is not a URL")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("the address must start with http:// or https://");
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err("the address must not contain a password; put the key into the variable OPENAI_API_KEY");
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return Err("the address must be a host with a path, without a query");
    }
    if base_url.ends_with("/completions") {
        return Err("the address must end before /chat/completions or /completions, which are added");
    }
    Ok(EndpointSpec { base_url: base_url.to_owned(), model: model.to_owned(), style })
}

fn bad(text: &str, problem: &'static str) -> Error {
    let syntax = "an endpoint is written openai:http://HOST:PORT/v1#MODEL";
    Error::BadPlayer { text: without_password(text), problem, syntax }
}

/// The text of a player for a message, without `user:password@`.
pub(crate) fn without_password(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(from), Some(to)) if from + 3 < to => format!("{}…{}", &text[..from + 3], &text[to..]),
        _ => text.to_owned(),
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
        write!(f, "{}{}#{}", self.style.scheme(), self.base_url, self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_round_trip_through_text() {
        for text in [
            "openai:http://localhost:8000/v1#llama",
            "openai:https://models.example/v1#org/model-7b:latest",
            "openai-completions:http://[::1]:8080/v1#m",
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
        let said = "openai:http://me:secret@a/v1#m".parse::<PlayerSpec>().unwrap_err().to_string();
        assert!(said.contains("OPENAI_API_KEY") && !said.contains("secret"), "{said}");
    }
}
