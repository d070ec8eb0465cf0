//! Errors in the format of OpenAI's API.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// An error of a request: a status, and a body `{"error": {"message", "type", "param", "code"}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub(crate) status: StatusCode,
    kind: &'static str,
    pub(crate) message: String,
    param: Option<String>,
    code: Option<&'static str>,
    retry_after_s: Option<u64>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), param: None, code: None, retry_after_s: None }
    }

    /// 400: the request is invalid.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// 400: a field is invalid.
    pub fn field(param: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        let param = param.into();
        Self { param: Some(param.clone()), ..Self::bad(format!("{param}: {problem}")) }
    }

    /// The same error with the field nested in `outer`.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        if let Some(param) = &mut self.param {
            *param = format!("{outer}.{param}");
            self.message = format!("{outer}.{}", self.message);
        }
        self
    }

    /// 400: a known field that this server does not support.
    pub(crate) fn unsupported(param: &str, instead: &str) -> Self {
        let code = Some("unsupported_parameter");
        Self { code, ..Self::field(param, format_args!("this server does not support it; {instead}")) }
    }

    /// 400: prompt and completion do not fit into the model's context.
    pub(crate) fn too_long(context: usize, prompt: usize, completion: usize) -> Self {
        let message = format!(
            "This model's maximum context length is {context} tokens. However, you requested {} tokens ({prompt} in the \
             prompt, {completion} for the completion). Shorten the prompt or lower max_tokens.",
            prompt.saturating_add(completion)
        );
        Self { param: Some("prompt".into()), code: Some("context_length_exceeded"), ..Self::bad(message) }
    }

    /// 400: a text has too many bytes to fit into the model's context.
    pub(crate) fn long_text(at: &str, bytes: usize, most: usize, context: usize) -> Self {
        let problem = format!(
            "This model's maximum context length is {context} tokens. However, the text has {bytes} bytes, more than the {most} that \
             are encoded. Shorten it."
        );
        Self { code: Some("context_length_exceeded"), ..Self::field(at, problem) }
    }

    /// 401: no valid API key.
    pub(crate) fn unauthorized() -> Self {
        let message = "This server needs a key: send the header `Authorization: Bearer KEY` with a valid KEY";
        Self { code: Some("invalid_api_key"), ..Self::new(StatusCode::UNAUTHORIZED, "invalid_request_error", message) }
    }

    /// 403: the request names a host that is not this server's.
    pub(crate) fn wrong_host(host: &str) -> Self {
        let message = format!(
            "This server does not answer to the host {:?}; start it with --allowed_host HOST to allow it",
            spag_io::quote(host)
        );
        Self::new(StatusCode::FORBIDDEN, "invalid_request_error", message)
    }

    /// 403: the request comes from a page of another origin.
    pub(crate) fn wrong_origin(origin: &str) -> Self {
        let message = format!(
            "Pages of the origin {:?} may not use this server; start it with --cors_origin ORIGIN to allow it",
            spag_io::quote(origin)
        );
        Self::new(StatusCode::FORBIDDEN, "invalid_request_error", message)
    }

    /// 404: no such route.
    pub(crate) fn no_route(method: &str, path: &str) -> Self {
        let what = spag_io::quote(&format!("{method} {path}"));
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", format!("Unknown request URL: {what}"))
    }

    /// 405: the route does not support the method.
    pub(crate) fn wrong_method(method: &str, path: &str) -> Self {
        let what = spag_io::quote(&format!("{method} {path}"));
        let message = format!("Not allowed: {what}; the header `allow` names the methods of this route");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", message)
    }

    /// 404: an object named by a request does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", message)
    }

    /// 404: no such model.
    pub(crate) fn no_model(name: &str) -> Self {
        let message =
            format!("The model `{}` does not exist; GET /v1/models lists those that do", spag_io::quote(name));
        let error = Self::new(StatusCode::NOT_FOUND, "invalid_request_error", message);
        Self { param: Some("model".into()), code: Some("model_not_found"), ..error }
    }

    /// 408: the request timed out while being received.
    pub(crate) fn slow(seconds: f64) -> Self {
        let message = format!("The request did not arrive within {seconds} seconds");
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request_error", message)
    }

    /// 413: the body is too large.
    pub(crate) fn large_body(most: usize) -> Self {
        let message =
            format!("The body has more than {most} bytes, the most that this server accepts; send fewer prompts");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", message)
    }

    /// 415: the body is not JSON.
    pub(crate) fn not_json() -> Self {
        let message = "Unsupported media type: send the header `Content-Type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error", message)
    }

    /// 431: the headers are too large.
    pub(crate) fn large_headers(most: usize) -> Self {
        let message = format!("The headers have more than {most} bytes, the most that this server accepts");
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "invalid_request_error", message)
    }

    /// 429: the server is overloaded.
    pub fn busy(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "requests", message);
        Self { code: Some("rate_limit_exceeded"), retry_after_s: Some(1), ..error }
    }

    /// 503: the server is shutting down, or its engine has failed.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", message)
    }

    /// 500: an internal error of the server or the model.
    pub fn server(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// The cause and the remedy.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The body.
    pub fn body(&self) -> Value {
        json!({"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}})
    }
}

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, self.body().to_string());
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(self.status, StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE) {
            // The rest of the body is not read, so the connection cannot be reused.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
