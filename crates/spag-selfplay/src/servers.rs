//! The servers of an endpoint, by their URLs.

use std::fmt;
use std::slice;

use ureq::http::Uri;

/// Most URLs of a pool.
const MOST: usize = 64;

/// The servers that have a model, by the URLs before `/chat/completions`, without a final slash:
/// `http://localhost:8000/v1`.
///
/// Written as the URL, or as the URLs of a pool with commas between them. A single URL with a comma after it is a pool, to
/// which more may be added later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// One server.
    One(String),
    /// Servers with the same model, in any number. Records of games do not name them.
    Pool(Vec<String>),
}

impl Servers {
    /// All URLs; at least one.
    pub fn urls(&self) -> &[String] {
        match self {
            Self::One(url) => slice::from_ref(url),
            Self::Pool(urls) => urls,
        }
    }

    /// What identifies the servers in records of games: the URL, or `pool`, since a pool may have other servers when its
    /// games are continued.
    pub(crate) fn recorded(&self) -> &str {
        match self {
            Self::One(url) => url,
            Self::Pool(_) => "pool",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let Some((first, rest)) = text.split_once(',') else { return base_url(text).map(Self::One) };
        let mut urls = vec![base_url(first.trim())?];
        if !rest.trim().is_empty() {
            for text in rest.split(',') {
                let url = base_url(text.trim())?;
                if urls.contains(&url) {
                    return Err("a URL of the pool is given twice");
                }
                urls.push(url);
            }
        }
        if urls.len() > MOST {
            return Err("a pool has at most 64 URLs");
        }
        Ok(Self::Pool(urls))
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(url) => f.write_str(url),
            Self::Pool(urls) if urls.len() == 1 => write!(f, "{},", urls.concat()),
            Self::Pool(urls) => f.write_str(&urls.join(",")),
        }
    }
}

/// Scheme, host and port of a URL: where a key is sent to.
pub(crate) fn host(base_url: &str) -> String {
    let uri: Option<Uri> = base_url.parse().ok();
    let part = |uri: &Uri| {
        let scheme = uri.scheme_str()?.to_lowercase();
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        Some(format!("{scheme}://{}:{port}", uri.host()?.to_lowercase()))
    };
    uri.as_ref().and_then(part).unwrap_or_else(|| base_url.to_owned())
}

fn base_url(url: &str) -> Result<String, &'static str> {
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
    let base_url = url.trim_end_matches('/');
    if base_url.ends_with("/completions") {
        return Err("the address must end before /chat/completions or /completions, which are added");
    }
    Ok(base_url.to_owned())
}
