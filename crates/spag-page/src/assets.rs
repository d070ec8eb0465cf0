//! The files of the page, inside the binary.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use spag_run::document;

/// A file that everybody may read.
#[derive(Clone, Copy)]
struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal, $file:literal, $kind:expr) => {
        Asset { path: $path, kind: $kind, text: include_str!(concat!("../assets/", $file)) }
    };
}

/// What both pages load.
macro_rules! pages {
    ($($own:expr),* $(,)?) => {
        &[
            $($own,)*
            asset!("/page/page.css", "page.css", STYLE),
            asset!("/page/icon.svg", "icon.svg", "image/svg+xml"),
            asset!("/page/api.js", "api.js", SCRIPT),
            asset!("/page/key.js", "key.js", SCRIPT),
            asset!("/page/views.js", "views.js", SCRIPT),
            asset!("/page/game.js", "game.js", SCRIPT),
            asset!("/page/board.js", "board.js", SCRIPT),
            asset!("/page/runs.js", "runs.js", SCRIPT),
        ]
    };
}

/// The files of a page, without those that draw documents.
pub(crate) struct Files(&'static [Asset]);

impl Files {
    /// All files of the page.
    fn all(&self) -> impl Iterator<Item = Asset> + use<> {
        let (path, text) = document::STYLE;
        let style = Asset { path, kind: STYLE, text };
        let modules = document::MODULES.into_iter().map(|(path, text)| Asset { path, kind: SCRIPT, text });
        self.0.iter().copied().chain([style]).chain(modules)
    }
}

/// The page of `spag serve`.
pub(crate) const PLAY: Files = Files(pages![
    asset!("/", "index.html", HTML),
    asset!("/page/main.js", "main.js", SCRIPT),
    asset!("/page/play.js", "play.js", SCRIPT),
    asset!("/page/watch.js", "watch.js", SCRIPT),
    asset!("/page/replay.js", "replay.js", SCRIPT),
    asset!("/page/options.js", "options.js", SCRIPT),
    asset!("/page/rules.js", "rules.js", SCRIPT),
    asset!("/page/goal.js", "goal.js", SCRIPT),
    asset!("/page/grid.js", "grid.js", SCRIPT),
    asset!("/page/confirm.js", "confirm.js", SCRIPT),
]);

/// The page of `spag watch`.
pub(crate) const WATCH: Files = Files(pages![
    asset!("/", "run.html", HTML),
    asset!("/page/run.css", "run.css", STYLE),
    asset!("/page/run.js", "run.js", SCRIPT),
    asset!("/page/live.js", "live.js", SCRIPT),
    asset!("/page/training.js", "training.js", SCRIPT),
    asset!("/page/win_rates.js", "win_rates.js", SCRIPT),
    asset!("/page/feed.js", "feed.js", SCRIPT),
]);

/// Nothing from elsewhere, no inline scripts or styles, no HTML made of text, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

impl Asset {
    /// The file, or 304 if the client has it.
    fn answer(&self, tag: &HeaderValue, request: &HeaderMap) -> Response {
        let known = request.get(header::IF_NONE_MATCH).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_known = known.split(|byte| *byte == b',').any(|one| one.trim_ascii() == tag.as_bytes());
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => self.text.into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(header::ETAG, tag.clone());
        // Asked again each time, so that a newer server's files fit each other.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

/// The routes of the files of a page: path and handler.
pub(crate) fn routes(files: &Files) -> impl Iterator<Item = (&'static str, MethodRouter)> + use<> {
    files.all().map(|asset| {
        let digest = spag_io::sha256(asset.text.as_bytes());
        let tag = HeaderValue::from_str(&format!("\"{:.16}\"", digest));
        let tag = tag.unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        (asset.path, get(async move |request: Request| asset.answer(&tag, request.headers())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_nothing_outside_and_no_way_around_text() {
        for Asset { path, text, .. } in PLAY.all().chain(WATCH.all()) {
            for outside in ["http:", "https:", "//cdn", "@import", "innerHTML", "outerHTML", "insertAdjacentHTML"] {
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(outside), "{path}: {outside}");
            }
            for way in ["document.write", "eval(", "new Function", "DOMParser", "srcdoc", "style="] {
                assert!(!text.contains(way), "{path}: {way}");
            }
        }
    }

    #[test]
    fn every_module_that_is_imported_is_served() {
        for files in [PLAY, WATCH] {
            for Asset { path, text, kind } in files.all().filter(|asset| asset.kind == SCRIPT) {
                for line in text.lines().filter(|line| line.starts_with("import ")) {
                    let name = line.split('"').nth(1).and_then(|name| name.strip_prefix("./")).unwrap_or_default();
                    let is_served = files.all().any(|other| other.path == format!("/page/{name}"));
                    assert!(is_served, "{path} ({kind}): {line}");
                }
            }
        }
    }
}
