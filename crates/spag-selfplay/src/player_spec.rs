//! Players as written on a command line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::endpoint::{EndpointSpec, PromptStyle, key_variable};
use crate::error::{Error, Result};

/// A checkpoint or an endpoint.
///
/// Parsed from and displayed as `FOLDER` or `FILE.gguf`, `openai:http://HOST:PORT/v1#MODEL` or
/// `openai-completions:http://HOST:PORT/v1#MODEL`; `https:` is allowed too. Several servers with the same model are a pool:
/// `openai:http://A:8000/v1,http://B:8000/v1#MODEL`. The environment variable with an endpoint's
/// own key comes before the address: `openai:NAME_API_KEY@https://HOST/v1#MODEL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlayerSpec {
    /// A Hugging Face folder or a GGUF file.
    Model(PathBuf),
    /// A model with a LoRA adapter, which no text spells; see [`PlayerSpec::with_adapter`].
    Adapted {
        /// A Hugging Face folder or a GGUF file.
        model: PathBuf,
        /// The adapter's folder, in PEFT's format.
        adapter: PathBuf,
    },
    /// A model behind an OpenAI-compatible server.
    Endpoint(EndpointSpec),
}

impl PlayerSpec {
    /// The checkpoint, and the folder of its adapter; `None` for an endpoint.
    pub fn checkpoint(&self) -> Option<(&Path, Option<&Path>)> {
        match self {
            Self::Model(model) => Some((model, None)),
            Self::Adapted { model, adapter } => Some((model, Some(adapter))),
            Self::Endpoint(_) => None,
        }
    }

    /// The same checkpoint with the adapter in a folder; `None` for an endpoint.
    pub fn with_adapter(&self, adapter: PathBuf) -> Option<Self> {
        self.checkpoint().map(|(model, _)| Self::Adapted { model: model.to_owned(), adapter })
    }
}

impl FromStr for PlayerSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        for style in PromptStyle::ALL {
            if let Some(rest) = text.strip_prefix(style.scheme()) {
                return EndpointSpec::parse(rest, style).map(Self::Endpoint).map_err(|problem| bad(text, problem));
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

fn bad(text: &str, problem: &'static str) -> Error {
    let syntax = "an endpoint is written openai:http://HOST:PORT/v1#MODEL or openai:NAME_API_KEY@http://HOST:PORT/v1#MODEL, with \
         commas between several URLs";
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
            Self::Adapted { model, adapter } => write!(f, "{} with {}", model.display(), adapter.display()),
            Self::Endpoint(endpoint) => endpoint.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_by_scheme_name_and_port() {
        let host = |text: &str| match text.parse().unwrap() {
            PlayerSpec::Endpoint(spec) => spec.hosts().collect::<Vec<_>>(),
            other => panic!("{text}: {other}"),
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
            "openai:http://a:8000/v1,http://b:8000/v1#m",
            "openai-completions:A_API_KEY@https://a/v1,https://b/v1,https://c/v1#m",
            "openai:http://a/v1,#m",
            "runs/tiny/im/model",
            "./openai:odd",
        ] {
            let spec: PlayerSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(matches!(spec, PlayerSpec::Endpoint(_)), text.starts_with("openai"));
        }
        let slash: PlayerSpec = "openai:http://a/v1/#m".parse().unwrap();
        assert_eq!(slash.to_string(), "openai:http://a/v1#m");
        let spaces: PlayerSpec = "openai:http://a/v1/, http://b/v1#m".parse().unwrap();
        assert_eq!(spaces.to_string(), "openai:http://a/v1,http://b/v1#m");
    }

    #[test]
    fn records_name_a_single_server_but_not_those_of_a_pool() {
        let address = |text: &str| match text.parse().unwrap() {
            PlayerSpec::Endpoint(spec) => spec.address(),
            other => panic!("{text}: {other}"),
        };
        assert_eq!(address("openai:A_API_KEY@http://a/v1#m"), "openai:http://a/v1#m");
        for pool in ["http://a/v1,http://b/v1", "http://c/v1,", "A_API_KEY@http://b/v1,http://c/v1,http://d/v1"] {
            assert_eq!(address(&format!("openai:{pool}#m")), "openai:pool#m");
        }
        assert_ne!(address("openai:http://a/v1,#m"), address("openai:http://a/v1,#n"));
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
            ("openai:http://a/v1,b/v1#m", "http://"),
            ("openai:http://a/v1,http://b/v1,#m", "not a URL"),
            ("openai:http://a/v1,http://b/v1,http://a/v1/#m", "twice"),
            ("openai-chat:http://a/v1#m", "openai-completions:"),
            ("http://a/v1#m", "must start with openai:"),
        ] {
            let said = text.parse::<PlayerSpec>().unwrap_err().to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
        let many: Vec<String> = (0..65).map(|port| format!("http://a:{port}/v1")).collect();
        let said = format!("openai:{}#m", many.join(",")).parse::<PlayerSpec>().unwrap_err().to_string();
        assert!(said.contains("at most 64 URLs"), "{said}");
        let long = format!("openai:http://a/v1#{}", "m".repeat(501));
        for text in ["openai:http://a/v1#a\nb", &long] {
            assert!(text.parse::<PlayerSpec>().unwrap_err().to_string().contains("control character"));
        }
        for text in [
            "openai:sk-secret@http://a/v1#m",
            "openai:sk-secret@http://a/v1,http://b/v1#m",
            "openai:http://a/v1,http://me:secret@b/v1#m",
            "openai:AWS_SECRET_ACCESS_KEY_secret@http://a/v1#m",
            "openai:secret_API_KEY@http://a/v1#m",
            "IM=openai-completions:sk-secret@https://a/v1#m",
        ] {
            let said = text.parse::<PlayerSpec>().map_err(|error| error.to_string());
            let said = said.err().unwrap_or_else(|| without_password(text));
            assert!(!said.contains("secret"), "{said}");
            assert!(said.contains("NAME_API_KEY") || text.starts_with("IM"), "{said}");
        }
        assert!("openai:PATH@http://a/v1#m".parse::<PlayerSpec>().is_err());
        let said = "openai:http://me:secret@a/v1#m".parse::<PlayerSpec>().unwrap_err().to_string();
        assert!(said.contains("OPENAI_API_KEY") && !said.contains("secret"), "{said}");
    }
}
