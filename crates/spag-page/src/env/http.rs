//! The routes: sessions at `/ws`, and single requests, each of which has an environment of its own as in OpenEnv's server.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Map, Value, json};
use spag_game::session::{Code, Problem, parse_object};
use spag_serve::{Access, ApiError, Routes};

use super::environment::Environment;
use super::message::{FieldFault, Fields, action};
use super::{House, mcp, socket};

/// The JSON schemas of actions, observations and states.
const SCHEMA: &str = include_str!("schema.json");

/// An answer to a single request.
struct Answer {
    status: StatusCode,
    body: Value,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}

impl Answer {
    fn ok(body: Value) -> Self {
        Self { status: StatusCode::OK, body }
    }

    /// 422, with the fields that are wrong.
    fn invalid(details: Vec<Value>) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, body: json!({"detail": details}) }
    }

    fn invalid_fields(faults: &[FieldFault]) -> Self {
        Self::invalid(faults.iter().map(|fault| fault.json(&["body"])).collect())
    }

    /// 500, as OpenEnv's server answers to all that an environment raises.
    fn failed(problem: &Problem) -> Self {
        let reason = format!("{}: {}", problem.code.name(), problem.message);
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, body: json!({"detail": reason}) }
    }
}

/// All routes.
pub(super) fn routes(house: Arc<House>) -> Routes {
    let metadata = json!({
        "name": house.environments.game,
        "description": format!("{}: self-play of both players", house.title),
        "readme_content": null,
        "version": env!("CARGO_PKG_VERSION"),
        "author": null,
        "documentation_url": null,
    });
    let of = |answer: fn(&House, Map<String, Value>) -> Answer| {
        let house = house.clone();
        post(move |request: Request| respond(house, request, answer))
    };
    let mcp_house = house.clone();
    Routes::new()
        .healthy("healthy")
        .route("/reset", Access::Key, of(reset))
        .route("/step", Access::Key, of(step))
        .route("/state", Access::Key, get(|| async { Json(json!({"episode_id": null, "step_count": 0})) }))
        .route("/metadata", Access::Key, get(move || async move { Json(metadata) }))
        .route("/schema", Access::Key, get(|| async { ([(header::CONTENT_TYPE, "application/json")], SCHEMA) }))
        .route("/openapi.json", Access::Key, get(|| async { Json(openapi()) }))
        .route(
            "/mcp",
            Access::Key,
            post(async move |request: Request| {
                mcp_house.services.receive(request, |body| Ok(mcp::respond(body))).await.map(Json)
            }),
        )
        .route(
            "/ws",
            Access::Key,
            get(async move |upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>, request: Request| {
                open_session(house, upgrade, &request)
            }),
        )
}

/// Receives the object of a request and answers to it.
async fn respond(
    house: Arc<House>,
    request: Request,
    answer: fn(&House, Map<String, Value>) -> Answer,
) -> Result<Answer, ApiError> {
    let shared = house.clone();
    let read = move |body: &[u8]| {
        let body = if body.is_empty() { b"{}" } else { body };
        Ok(match parse_object("body", body) {
            Ok(object) => answer(&shared, object),
            Err(problem) => {
                Answer::invalid(vec![json!({"type": "json_invalid", "loc": ["body"], "msg": problem.message})])
            }
        })
    };
    house.services.receive(request, read).await
}

/// The first observation of a game. The game ends with the request.
fn reset(house: &House, body: Map<String, Value>) -> Answer {
    let mut fields = Fields::new(body);
    fields.check_optional_seed("seed");
    fields.check_optional_text("episode_id");
    match fields.rest() {
        Ok(data) => in_environment(house, |environment| environment.reset(data)),
        Err(faults) => Answer::invalid_fields(&faults),
    }
}

/// Without a session there is no game to step in.
fn step(house: &House, body: Map<String, Value>) -> Answer {
    let mut fields = Fields::new(body);
    let data = fields.object("action");
    match fields.rest().and_then(|_| action(data)) {
        Ok(text) => in_environment(house, |environment| environment.step(&text)),
        Err(faults) => Answer::invalid_fields(&faults),
    }
}

/// What a new environment answers.
fn in_environment(house: &House, play: impl FnOnce(&mut Environment) -> Result<Value, Problem>) -> Answer {
    match house
        .environment()
        .map_err(|error| Problem::new(Code::Validation, error.to_string()))
        .and_then(|mut environment| play(&mut environment))
    {
        Ok(answer) => Answer::ok(answer),
        Err(problem) => Answer::failed(&problem),
    }
}

/// Makes a session of a connection.
fn open_session(
    house: Arc<House>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: &Request,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(refused) => return (refused.status(), Json(json!({"detail": refused.body_text()}))).into_response(),
    };
    let connection = house.services.keep_connection(request);
    let most = house.max_message_bytes;
    upgrade.max_message_size(most).max_frame_size(most).on_upgrade(|socket| socket::talk(socket, house, connection))
}

/// The routes, for tools that look them up.
fn openapi() -> Value {
    let success = json!({"200": {"description": "Successful Response"}});
    let path = |method: &str, summary: &str| json!({method: {"summary": summary, "responses": success}});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "OpenEnv Environment HTTP API", "version": "1.0.0"},
        "paths": {
            "/reset": path("post", "Reset the environment"),
            "/step": path("post", "Execute an action in the environment"),
            "/state": path("get", "Get current environment state"),
            "/metadata": path("get", "Get environment metadata"),
            "/health": path("get", "Health check"),
            "/schema": path("get", "Get all JSON schemas"),
            "/mcp": path("post", "MCP JSON-RPC endpoint"),
        },
    })
}
