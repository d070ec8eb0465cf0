//! The routes of a run's games and of its report, and how routes answer in JSON.

use std::sync::Arc;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use spag_serve::{Access, ApiError, Routes, Services};

use super::ShownRun;

/// The run that a server shows, if any.
pub(crate) type Shown = Option<Arc<ShownRun>>;

/// An answer in JSON.
pub(crate) fn json_response(body: &Value) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Games and settings are of this moment.
    let cache = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    ([kind, cache], body.to_string()).into_response()
}

/// A route that answers a query with what `answer` makes of it, in JSON. It runs outside of the threads of the network.
pub(crate) fn json_route<S, Q>(
    services: &Services,
    shared: &Arc<S>,
    answer: impl Fn(&S, &Q) -> Result<Value, ApiError> + Clone + Send + Sync + 'static,
) -> MethodRouter
where
    S: Send + Sync + 'static,
    Q: DeserializeOwned + Send + 'static,
{
    let (services, shared) = (services.clone(), shared.clone());
    get(async move |query: Result<Query<Q>, QueryRejection>| {
        let Query(query) = query.map_err(|error| ApiError::bad(spag_io::quote(&error.body_text())))?;
        services.work(move || answer(&shared, &query).map(|body| json_response(&body))).await
    })
}

/// Adds the routes of a run folder. Without one, they answer that there is none.
pub(crate) fn add_routes(routes: Routes, run: Shown, services: &Services) -> Routes {
    let run = &Arc::new(run);
    let list = |run: &Shown, _: &IgnoredAny| folder(run)?.list();
    let report = |run: &Shown, _: &IgnoredAny| folder(run)?.report();
    routes
        .route("/page/run", Access::Key, json_route(services, run, list))
        .route("/page/run/games", Access::Key, json_route(services, run, |run, query| folder(run)?.games(query)))
        .route("/page/run/game", Access::Key, json_route(services, run, |run, query| folder(run)?.one_game(query)))
        .route("/page/run/report", Access::Key, json_route(services, run, report))
}

fn folder(run: &Shown) -> Result<&ShownRun, ApiError> {
    run.as_deref().ok_or_else(|| ApiError::not_found("This server shows no run; start it with --run FOLDER"))
}
