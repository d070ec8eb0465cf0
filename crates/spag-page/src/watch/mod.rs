//! The page of `spag watch`: a run while it works, and after.
//!
//! It reads the files of the run folder and writes none, takes no lock, and needs no model. Files are read when a page asks,
//! from where the last reading ended.

mod feed;
mod games;
mod rank;
mod view;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use spag_game::Taboo;
use spag_run::files;
use spag_serve::{Access, ApiError, Routes, Services};

use crate::assets;
use crate::error::{Error, Result};
use crate::runs::{self, ShownRun, json_route};
use view::View;

/// Time within which an open page asks again: a hidden one asks every ten seconds.
const OPEN: Duration = Duration::from_secs(12);

/// The page of a run, with others that are compared with it.
#[derive(Clone)]
pub struct WatchPage(Arc<Watched>);

struct Watched {
    /// The run whose page it is.
    first: WatchedRun,
    others: Vec<WatchedRun>,
    /// How they are told apart, the first one's first.
    labels: Vec<String>,
}

struct WatchedRun {
    run: Arc<ShownRun>,
    view: Mutex<View>,
    /// When a page got the state of the run.
    answered: Mutex<Option<Instant>>,
}

/// The state of the run, with games from a number on.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LiveQuery {
    /// The number of the run.
    run: usize,
    /// The epoch of the last answer.
    epoch: Option<u64>,
    /// The first game that the page does not have.
    from: u64,
}

/// The curves of a stage.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurvesQuery {
    /// The number of the run.
    #[serde(default)]
    run: usize,
    /// Its folder.
    stage: String,
}

impl WatchPage {
    /// The page of a run that has begun, with `others` beside it.
    ///
    /// # Errors
    /// A folder cannot be read, is not one of `spag run`, or is given twice.
    pub fn open(root: PathBuf, others: Vec<PathBuf>) -> Result<Self> {
        let roots: Vec<&PathBuf> = std::iter::once(&root).chain(&others).collect();
        for (at, root) in roots.iter().copied().enumerate() {
            let wrong = |reason: String| Err(Error::Run { path: root.clone(), reason });
            match std::fs::read_dir(root) {
                Err(error) => return wrong(format!("{error}; name the run_dir of a run")),
                Ok(mut entries) => {
                    if entries.next().is_some() && !root.join(files::SETTINGS).exists() {
                        return wrong("it has no config.resolved.toml; name the run_dir of a run of `spag run`".into());
                    }
                }
            }
            let is_same = |other: &&PathBuf| other.canonicalize().ok() == root.canonicalize().ok();
            if roots.iter().take(at).any(is_same) {
                return wrong("it is given twice".into());
            }
        }
        Ok(Self::of_runs(root, others))
    }

    /// The page of a run whose folder may not exist yet.
    pub fn of_run(root: impl Into<PathBuf>) -> Self {
        Self::of_runs(root.into(), Vec::new())
    }

    fn of_runs(root: PathBuf, others: Vec<PathBuf>) -> Self {
        let labels = labels(std::iter::once(&root).chain(&others));
        let others = others.into_iter().map(WatchedRun::new).collect();
        Self(Arc::new(Watched { first: WatchedRun::new(root), others, labels }))
    }

    /// The routes of the page, for [`Server::bind_with`](spag_serve::Server::bind_with) without models.
    pub fn routes(&self, services: Services) -> Routes {
        let mut routes = Routes::new();
        for (path, handler) in assets::routes(&assets::WATCH) {
            routes = routes.route(path, Access::Everybody, handler);
        }
        routes = routes.route("/page/live", Access::Key, json_route(&services, &self.0, Watched::live)).route(
            "/page/live/curves",
            Access::Key,
            json_route(&services, &self.0, Watched::curves),
        );
        runs::add_routes(routes, Some(self.0.first.run.clone()), &services)
    }

    /// Waits until an open page has got the state as it is now, 12 seconds at most. Without an open page, it returns at once.
    pub fn wait_for_open_page(&self) {
        let first = &self.0.first;
        let now = Instant::now();
        let answered = || *lock(&first.answered);
        if answered().is_none_or(|answered| now - answered > OPEN) {
            return;
        }
        lock(&first.view).expire();
        while answered().is_none_or(|answered| answered <= now) && now.elapsed() < OPEN {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What runs are called: the ends of their paths, as long as it takes to tell them apart.
fn labels<'a>(roots: impl Iterator<Item = &'a PathBuf>) -> Vec<String> {
    let paths: Vec<PathBuf> = roots.map(|root| root.canonicalize().unwrap_or_else(|_| root.clone())).collect();
    let end = |path: &PathBuf, parts: usize| {
        let all: Vec<_> = path.components().collect();
        all.iter().skip(all.len().saturating_sub(parts)).collect::<PathBuf>()
    };
    let longest = paths.iter().map(|path| path.components().count()).max().unwrap_or(1);
    let label = |path: &PathBuf| {
        let is_own = |parts: &usize| paths.iter().filter(|other| end(other, *parts) == end(path, *parts)).count() == 1;
        let parts = (1..longest).find(is_own).unwrap_or(longest);
        spag_io::quote(&end(path, parts).display().to_string())
    };
    paths.iter().map(label).collect()
}

impl WatchedRun {
    fn new(root: PathBuf) -> Self {
        // The judge of a run is in its settings. Without them there are no games.
        let run = Arc::new(ShownRun::of_run(root, Arc::new(Taboo::default())));
        let view = Mutex::new(View::new(&run));
        Self { run, view, answered: Mutex::new(None) }
    }
}

impl Watched {
    fn run(&self, number: usize) -> std::result::Result<&WatchedRun, ApiError> {
        let none = || ApiError::field("run", format!("this page has {} runs, numbered from 0", self.labels.len()));
        std::iter::once(&self.first).chain(&self.others).nth(number).ok_or_else(none)
    }

    fn live(&self, query: &LiveQuery) -> std::result::Result<Value, ApiError> {
        let began = Instant::now();
        let watched = self.run(query.run)?;
        let mut view = lock(&watched.view);
        view.update(&watched.run);
        let mut body = view.json(&watched.run, query.epoch, query.from);
        drop(view);
        body["labels"] = self.labels.clone().into();
        *lock(&watched.answered) = Some(began);
        Ok(body)
    }

    fn curves(&self, query: &CurvesQuery) -> std::result::Result<Value, ApiError> {
        let none = || ApiError::field("stage", format!("this run has no stage {}", spag_io::quote(&query.stage)));
        lock(&self.run(query.run)?.view).curves(&query.stage).ok_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_called_by_the_ends_of_their_paths() {
        let of = |paths: &[&str]| labels(paths.iter().map(PathBuf::from).collect::<Vec<_>>().iter());
        assert_eq!(of(&["/none/runs/a", "/none/runs/b"]), ["a", "b"]);
        assert_eq!(of(&["/none/x/tiny", "/none/y/tiny", "/none/z"]), ["x/tiny", "y/tiny", "z"]);
        assert_eq!(of(&["/none/a/b/c", "/none/c", "/none/b/c"]), ["a/b/c", "none/c", "none/b/c"]);
        assert_eq!(of(&["/none/a\u{1b}"]), ["a\\u{1b}"]);
    }
}
