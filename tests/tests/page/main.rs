//! The pages of `spag serve` and `spag watch`: their routes, and the pages themselves in headless Chromium.
//!
//! The tests with a browser are ignored by default; `-- --ignored` runs them. They need Chromium and chromedriver of the same
//! version; CHROMIUM and CHROMEDRIVER name others than those on PATH.

mod browser;
mod browser_documents;
mod browser_games;
mod browser_hostile;
mod browser_runs;
mod browser_server;
mod browser_setup;
mod browser_views;
mod browser_watch;
mod browser_watch_run;
mod compared_runs;
mod endpoints;
mod models;
mod other_games;
mod reasoning;
mod routes;
mod run_routes;
mod watch_routes;
