//! Routing, and the checks applied to every request.

mod adapters;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use crate::answer::{Answer, ChatAnswer, CompletionAnswer, Head, collect};
use crate::api::{
    ApiError, ChatJob, CompletionJob, Delivery, Fields, Settings, detokenize, json_response, tokenize, tokenizer_info,
};
use crate::app::App;
use crate::browser::check_content_type;
use crate::drain::Busy;
use crate::engine_thread::Sequences;
use crate::error::{Error, Result};
use crate::extension::Routes;
use crate::limits::MAX_HEADER_BYTES;
use crate::model::{NamedModel, ServedModel};
use crate::stream;

type Shared = State<Arc<App>>;
type Answered = Result<Response, ApiError>;

const HEALTH: &str = "/health";
const METRICS: &str = "/metrics";
/// Paths with one route each.
const ROUTES: [&str; 11] = [
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/models",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    HEALTH,
    "/version",
    METRICS,
    "/tokenize",
    "/detokenize",
    "/tokenizer_info",
];

/// The app and the added paths.
struct Gate {
    app: Arc<App>,
    /// Added paths.
    added: Vec<&'static str>,
    /// Added paths that need no key.
    open: Vec<&'static str>,
}

/// The server's own and the added routes.
///
/// # Errors
/// Two routes have the same path.
pub(crate) fn router(app: Arc<App>, routes: Routes) -> Result<Router> {
    let healthy = routes.health_status();
    let gate = Arc::new(Gate { app: app.clone(), added: routes.paths(), open: routes.open() });
    let mut paths: HashSet<&str> = ROUTES.into();
    if let Some(path) = gate.added.iter().find(|path| !paths.insert(path)) {
        return Err(Error::Route { path });
    }
    let router = Router::new()
        .route(HEALTH, get(move |app: Shared| health(app, healthy)))
        .route("/version", get(|| async { ok(&json!({"version": env!("CARGO_PKG_VERSION")})) }))
        .route(METRICS, get(metrics));
    let router = if app.pool.models.is_empty() { router } else { of_models(router) };
    let router = routes
        .add_to(router)
        .fallback(async |request: Request| ApiError::no_route(request.method().as_str(), request.uri().path()))
        .method_not_allowed_fallback(async |request: Request| {
            ApiError::wrong_method(request.method().as_str(), request.uri().path())
        })
        .layer(from_fn_with_state(gate.clone(), admit));
    let router = match app.sites.cors() {
        Some(cors) => router.layer(cors),
        None => router,
    };
    let router = router.layer(from_fn_with_state(gate.clone(), refuse_other_sites));
    Ok(router.layer(from_fn_with_state(gate, count)).with_state(app))
}

/// Adds the routes that require a model.
fn of_models(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(|State(app): Shared| async move { ok(&app.pool.list()) }))
        .route("/v1/models/{*name}", get(model))
        .route("/v1/load_lora_adapter", post(adapters::load))
        .route("/v1/unload_lora_adapter", post(adapters::unload))
        .route("/tokenize", post(|app: Shared, request: Request| about_tokens(app, request, tokenize)))
        .route("/detokenize", post(|app: Shared, request: Request| about_tokens(app, request, detokenize)))
        .route("/tokenizer_info", get(info))
}

/// Counts the response to each request. Closes the connection after refusing a request with a body: the body is left unread,
/// so the connection cannot be reused, and the client must know that before its next request.
async fn count(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let route = match ROUTES.iter().chain(&gate.added).find(|route| **route == path) {
        Some(route) => route,
        None if path.starts_with("/v1/models/") => "/v1/models/{name}",
        // Arbitrary client paths must not grow the metrics.
        None => "other",
    };
    let has_body = !request.body().is_end_stream();
    let mut response = next.run(request).await;
    if has_body && (response.status().is_client_error() || response.status().is_server_error()) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    gate.app.metrics.count_response(route, response.status().as_u16());
    response
}

/// Refuses requests for other hosts and from pages of other origins, including CORS preflights.
async fn refuse_other_sites(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Answered {
    gate.app.sites.check(&request)?;
    Ok(next.run(request).await)
}

/// Refuses requests without a key, with too large headers or a body of another type, and all requests during shutdown.
async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Answered {
    let app = &gate.app;
    let path = request.uri().path();
    let headers = request.headers();
    let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    if headers.iter().map(size).sum::<usize>() > MAX_HEADER_BYTES {
        return Err(ApiError::large_headers(MAX_HEADER_BYTES));
    }
    let is_allowed = app.keys.as_ref().is_none_or(|keys| keys.allow(headers.get(header::AUTHORIZATION)));
    if !is_allowed && path != HEALTH && !gate.open.contains(&path) {
        return Err(ApiError::unauthorized());
    }
    if app.drain.has_begun() && path != METRICS {
        return Err(ApiError::unavailable("The server is ending; it accepts no more requests"));
    }
    check_content_type(&request)?;
    Ok(next.run(request).await)
}

/// Compiles the language of a request, concurrently with other requests. Not started if the request is dropped
/// while it waits.
async fn compile(app: &App, model: &Arc<ServedModel>, settings: &mut Settings) -> Result<(), ApiError> {
    let Some((field, language)) = settings.language.take() else { return Ok(()) };
    let model = model.clone();
    let compile = move || model.grammar(&language).map_err(|error| ApiError::field(field, error));
    settings.grammar = Some(app.compilers.run(1, compile).await?);
    Ok(())
}

async fn completions(State(app): Shared, request: Request) -> Answered {
    let busy = app.drain.enter();
    let (NamedModel { model, adapter }, head, mut job) = read(&app, request, "cmpl", CompletionJob::read).await?;
    compile(&app, &model, &mut job.settings).await?;
    let number = job.prompts.len() * job.settings.n;
    let sequences = match job.is_echo_only() {
        true => None,
        false => Some(model.engine.submit(job.requests(), &adapter)?),
    };
    deliver(&app, CompletionAnswer::new(model, job, head), sequences, number, busy).await
}

async fn chat(State(app): Shared, request: Request) -> Answered {
    let busy = app.drain.enter();
    let (NamedModel { model, adapter }, head, mut job) = read(&app, request, "chatcmpl", ChatJob::read).await?;
    compile(&app, &model, &mut job.settings).await?;
    let number = job.settings.n;
    let sequences = model.engine.submit(job.requests(), &adapter)?;
    deliver(&app, ChatAnswer::new(model, job, head), Some(sequences), number, busy).await
}

/// Sends the answer of a number of sequences, complete or streamed. Without sequences there is nothing to compute.
async fn deliver(
    app: &App,
    mut answer: impl Answer,
    sequences: Option<Sequences>,
    number: usize,
    busy: Busy,
) -> Answered {
    if answer.head().delivery != Delivery::Whole {
        return Ok(stream::respond(answer, sequences, number, busy));
    }
    let done = match sequences {
        Some(mut sequences) => collect(&mut sequences, number).await?,
        None => Vec::new(),
    };
    Ok(json_response(StatusCode::OK, app.receiver.work(move || answer.body(&done)).await?))
}

/// Receives a request and parses its fields for the model that it names.
async fn read<J: Send + 'static>(
    app: &Arc<App>,
    request: Request,
    id: &'static str,
    job: impl FnOnce(Fields, &ServedModel) -> Result<J, ApiError> + Send + 'static,
) -> Result<(NamedModel, Head, J), ApiError> {
    let received = app.receiver.receive(request).await?;
    let shared = app.clone();
    let work = move |body: &[u8]| {
        let mut fields = Fields::parse(body)?;
        let name = fields.text("model")?;
        let named = shared.pool.get(name.as_deref())?;
        let head = Head::new(id, name.unwrap_or_else(|| named.name().to_owned()));
        let job = job(fields, &named.model)?;
        Ok((named, head, job))
    };
    app.receiver.work_on(received, work).await
}

async fn about_tokens(
    State(app): Shared,
    request: Request,
    answer: fn(Fields, &ServedModel) -> Result<Value, ApiError>,
) -> Answered {
    let _busy: Busy = app.drain.enter();
    let (_, _, body) = read(&app, request, "", answer).await?;
    Ok(ok(&body))
}

async fn model(State(app): Shared, name: Result<Path<String>, PathRejection>) -> Answered {
    let Path(name) = name.map_err(|error| ApiError::bad(error.body_text()))?;
    Ok(ok(&app.pool.describe(&name)?))
}

async fn info(State(app): Shared, query: Result<Query<HashMap<String, String>>, QueryRejection>) -> Answered {
    let Query(query) = query.map_err(|error| ApiError::bad(error.body_text()))?;
    let model = app.pool.get(query.get("model").map(String::as_str))?;
    Ok(ok(&tokenizer_info(&model.model)))
}

async fn health(State(app): Shared, healthy: &'static str) -> Answered {
    match app.pool.fault() {
        None => Ok(ok(&json!({"status": healthy}))),
        Some((model, _)) => Err(ApiError::unavailable(format!("The engine of the model `{model}` has failed"))),
    }
}

async fn metrics(State(app): Shared) -> Answered {
    let text = app.metrics.text().map_err(|error| ApiError::server(error.to_string()))?;
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn ok(body: &Value) -> Response {
    json_response(StatusCode::OK, body.to_string())
}
