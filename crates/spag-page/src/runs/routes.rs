//! The routes of a run's games and of its report.

use std::sync::Arc;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::routing::{MethodRouter, get};
use serde::de::DeserializeOwned;
use serde_json::Value;
use spag_serve::{Access, ApiError, Routes, Services};

use super::{ReportQuery, RunFolder};
use crate::page::{Answered, json_response};

/// The parameters of a request, or why they cannot be read.
pub(crate) type AnyQuery<T> = Result<Query<T>, QueryRejection>;

/// The parameters of a request.
///
/// # Errors
/// 400 with the cause.
pub(crate) fn read<T>(query: AnyQuery<T>) -> Result<T, ApiError> {
    query.map(|Query(query)| query).map_err(|error| ApiError::bad(spag_io::quote(&error.body_text())))
}

/// Adds the routes of a run folder. Without one, they answer that there is none.
pub(crate) fn add_routes(routes: Routes, run: Option<Arc<RunFolder>>, services: Services) -> Routes {
    let shown = Arc::new(Shown { run, services });
    let (run, ticket, report) = (shown.clone(), shown.clone(), shown.clone());
    routes
        .route("/page/run", Access::Key, get(async move || run.json(|run| run.list()).await))
        .route("/page/run/games", Access::Key, json_of(&shown, RunFolder::games))
        .route("/page/run/game", Access::Key, json_of(&shown, RunFolder::one_game))
        .route("/page/run/ticket", Access::Key, get(async move || ticket.json(|run| Ok(run.ticket())).await))
        // An element of the page cannot send a key: it has a ticket instead.
        .route(
            "/page/run/report",
            Access::Everybody,
            get(async move |query: AnyQuery<ReportQuery>| {
                let query = read(query)?;
                report.answer(move |run| run.report(&query)).await
            }),
        )
}

/// Answers a query in JSON.
fn json_of<Q>(shown: &Arc<Shown>, answer: fn(&RunFolder, &Q) -> Result<Value, ApiError>) -> MethodRouter
where
    Q: DeserializeOwned + Send + 'static,
{
    let shown = shown.clone();
    get(async move |query: AnyQuery<Q>| {
        let query = read(query)?;
        shown.json(move |run| answer(run, &query)).await
    })
}

/// The run that a server shows.
struct Shown {
    run: Option<Arc<RunFolder>>,
    services: Services,
}

impl Shown {
    async fn answer(&self, work: impl FnOnce(&RunFolder) -> Answered + Send + 'static) -> Answered {
        let run = self.run.clone();
        let work = move || match &run {
            Some(run) => work(run),
            None => Err(ApiError::not_found("This server shows no run; start it with --run FOLDER")),
        };
        self.services.work(work).await
    }

    async fn json(&self, work: impl FnOnce(&RunFolder) -> Result<Value, ApiError> + Send + 'static) -> Answered {
        self.answer(move |run| Ok(json_response(&work(run)?))).await
    }
}
