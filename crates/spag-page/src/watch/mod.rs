//! The page of `spag watch`: a run while it works, and after.
//!
//! It reads the files of the run folder and writes none, takes no lock, and needs no model. Files are read when a page asks,
//! from where the last reading ended.

mod curves;
mod feed;
mod follow;
mod games;
mod ranks;
mod stages;
mod thinned;
mod view;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use spag_game::Taboo;
use spag_serve::{Access, ApiError, Routes, Services};

use crate::assets;
use crate::error::{Error, Result};
use crate::runs::{self, RunFolder, json_route};
use view::View;

/// Time within which an open page asks again: a hidden one asks every ten seconds.
const OPEN: Duration = Duration::from_secs(12);

/// The page of a run.
#[derive(Clone)]
pub struct WatchPage(Arc<Watched>);

struct Watched {
    run: Arc<RunFolder>,
    view: Mutex<View>,
    /// When a page got the state of the run.
    answered: Mutex<Option<Instant>>,
}

/// The state of the run, with games from a number on.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LiveQuery {
    /// The epoch of the last answer.
    epoch: Option<u64>,
    /// The first game that the page does not have.
    from: u64,
}

/// The curves of a stage.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurvesQuery {
    /// Its folder.
    stage: String,
}

impl WatchPage {
    /// The page of a run that has begun.
    ///
    /// # Errors
    /// The folder cannot be read, or is not one of `spag run`.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let wrong = |reason: String| Err(Error::Run { path: root.clone(), reason });
        match std::fs::read_dir(&root) {
            Err(error) => return wrong(format!("{error}; name the run_dir of a run")),
            Ok(mut entries) => {
                if entries.next().is_some() && !root.join("config.resolved.toml").exists() {
                    return wrong("it has no config.resolved.toml; name the run_dir of a run of `spag run`".into());
                }
            }
        }
        Ok(Self::of_run(root))
    }

    /// As [`WatchPage::open`], of a folder that may not exist yet.
    pub fn of_run(root: impl Into<PathBuf>) -> Self {
        // The judge of a run is in its settings. Without them there are no games.
        let run = Arc::new(RunFolder::of_run(root.into(), Arc::new(Taboo::default())));
        let view = Mutex::new(View::new(&run));
        Self(Arc::new(Watched { run, view, answered: Mutex::new(None) }))
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
        runs::add_routes(routes, Some(self.0.run.clone()), &services)
    }

    /// Waits until an open page has got the state as it is now, 12 seconds at most. Without an open page, it returns at once.
    pub fn wait_for_open_page(&self) {
        let now = Instant::now();
        let answered = || *lock(&self.0.answered);
        if answered().is_none_or(|answered| now - answered > OPEN) {
            return;
        }
        lock(&self.0.view).expire();
        while answered().is_none_or(|answered| answered <= now) && now.elapsed() < OPEN {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    fn live(&self, query: &LiveQuery) -> std::result::Result<Value, ApiError> {
        let began = Instant::now();
        let mut view = lock(&self.view);
        view.update(&self.run);
        let body = view.json(&self.run, query.epoch, query.from);
        drop(view);
        *lock(&self.answered) = Some(began);
        Ok(body)
    }

    fn curves(&self, query: &CurvesQuery) -> std::result::Result<Value, ApiError> {
        let none = || ApiError::field("stage", format!("this run has no stage {}", spag_io::quote(&query.stage)));
        lock(&self.view).curves(&query.stage).ok_or_else(none)
    }
}
