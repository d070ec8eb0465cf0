//! Which model is asked behind which servers, and how.

use std::fmt;

use crate::servers::{self, Servers};

/// Longest name of a model in bytes.
const LONGEST_MODEL: usize = 500;
/// Longest name of a variable in bytes.
const LONGEST_VARIABLE: usize = 100;

/// The format of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStyle {
    /// Messages to `/chat/completions`, for chat models: a plain prompt as a single one of the user.
    Chat,
    /// A text to complete, to `/completions`. Checkpoints get prompts in this format too.
    Completion,
}

impl PromptStyle {
    pub(crate) const ALL: [Self; 2] = [Self::Chat, Self::Completion];

    /// The path after the base URL.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completion => "/completions",
        }
    }

    /// What a [`PlayerSpec`](crate::PlayerSpec) starts with.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Chat => "openai:",
            Self::Completion => "openai-completions:",
        }
    }
}

/// A model behind a server, or a pool of servers, with the OpenAI protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSpec {
    /// The servers that have the model.
    pub servers: Servers,
    /// The server's name of the model.
    pub model: String,
    /// The format of prompts.
    pub style: PromptStyle,
    /// The environment variable with the key. `None`: `OPENAI_API_KEY`, if all endpoints of the run are on one host.
    pub key_variable: Option<String>,
}

impl EndpointSpec {
    /// What identifies the endpoint in records of games: neither the variable of its key, which does not change
    /// utterances, nor the URLs of a pool.
    pub fn address(&self) -> String {
        format!("{}{}#{}", self.style.scheme(), self.servers.recorded(), self.model)
    }

    /// Scheme, host and port of each URL: where a key is sent to.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = String> {
        self.servers.urls().iter().map(|url| servers::host(url))
    }

    /// Reads the text after the scheme of `style`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str, style: PromptStyle) -> Result<Self, &'static str> {
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
        Ok(Self { servers: Servers::parse(url)?, model: model.to_owned(), style, key_variable })
    }
}

impl fmt::Display for EndpointSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.style.scheme();
        match &self.key_variable {
            Some(variable) => write!(f, "{scheme}{variable}@{}#{}", self.servers, self.model),
            None => write!(f, "{scheme}{}#{}", self.servers, self.model),
        }
    }
}

/// The name of a variable with a key. Its ending keeps other secrets of the environment from being sent.
pub(crate) fn key_variable(name: &str) -> Result<String, &'static str> {
    let is_upper = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = name.bytes().all(is_upper) && name.starts_with(|c: char| !c.is_ascii_digit());
    if !is_name || !name.ends_with("_API_KEY") || name.len() > LONGEST_VARIABLE {
        return Err("the text before the @ must be an environment variable of the form NAME_API_KEY, not a key");
    }
    Ok(name.to_owned())
}
