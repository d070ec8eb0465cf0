//! Lets a program add routes to a server, and gives their handlers access to its services.
//!
//! Added routes are subject to the server's own checks and limits: hosts and origins, API keys, content types and sizes of headers
//! and bodies, shutdown, metrics and error format.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::MethodRouter;
use spag_chat::PromptEncoder;
use spag_io::TurnPrompt;
use spag_model::Tokenizer;
use spag_model::generate::Event;

use crate::api::{ApiError, TextLength};
use crate::app::App;
use crate::connections::Place;
use crate::drain::{Busy, Drain};
use crate::engine_thread::Sequences;
use crate::model::NamedModel;

/// Who may access an added route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Clients with a key, if the server has keys.
    Key,
    /// All clients. Only for files that contain no data of the server.
    Everybody,
}

/// Routes to add, each with a unique path without parameters.
#[derive(Debug)]
pub struct Routes {
    added: Vec<(&'static str, Access, MethodRouter)>,
    healthy: &'static str,
}

impl Default for Routes {
    fn default() -> Self {
        Self { added: Vec::new(), healthy: "ok" }
    }
}

impl Routes {
    /// No routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route.
    #[must_use]
    pub fn route(mut self, path: &'static str, access: Access, methods: MethodRouter) -> Self {
        self.added.push((path, access, methods));
        self
    }

    /// Sets the `/health` status of a server without a fault, "ok" by default.
    #[must_use]
    pub fn healthy(mut self, status: &'static str) -> Self {
        self.healthy = status;
        self
    }

    /// The status of a server without a fault.
    pub(crate) fn health_status(&self) -> &'static str {
        self.healthy
    }

    /// The paths accessible without a key.
    pub(crate) fn open(&self) -> Vec<&'static str> {
        self.added.iter().filter(|(_, access, _)| *access == Access::Everybody).map(|(path, ..)| *path).collect()
    }

    /// All paths.
    pub(crate) fn paths(&self) -> Vec<&'static str> {
        self.added.iter().map(|(path, ..)| *path).collect()
    }

    pub(crate) fn add_to(self, router: Router<Arc<App>>) -> Router<Arc<App>> {
        self.added.into_iter().fold(router, |router, (path, _, methods)| router.route(path, methods.with_state(())))
    }
}

/// Services of a server for handlers of added routes.
#[derive(Clone)]
pub struct Services(Arc<App>);

/// A connection that outlives its response, such as a WebSocket. The server counts it as a connection and waits for it on
/// shutdown.
pub struct KeptConnection {
    drain: Drain,
    _place: Option<Arc<Place>>,
    _busy: Busy,
}

/// A model of the server, or one of its adapters.
#[derive(Clone)]
pub struct ModelHandle(NamedModel);

impl Services {
    pub(crate) fn new(app: Arc<App>) -> Self {
        Self(app)
    }

    /// All models and adapters. The first model answers requests that name none.
    pub fn models(&self) -> Vec<ModelHandle> {
        self.0.pool.all().into_iter().map(ModelHandle).collect()
    }

    /// The model with a name.
    ///
    /// # Errors
    /// 404 if no model or adapter has this name.
    pub fn model(&self, name: &str) -> Result<ModelHandle, ApiError> {
        self.0.pool.get(Some(name)).map(ModelHandle)
    }

    /// Receives the body of a request within the server's limits, and processes it like [`Services::work`].
    ///
    /// # Errors
    /// The body cannot be received, has too many parts, or `read` refuses it.
    pub async fn receive<T: Send + 'static>(
        &self,
        request: Request,
        read: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let _busy = self.0.drain.enter();
        let received = self.0.receiver.receive(request).await?;
        self.0.receiver.work_on(received, read).await
    }

    /// Runs `work` outside of the network threads, a few at a time. A panic becomes an error of this request.
    ///
    /// # Errors
    /// The error of `work`.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let _busy = self.0.drain.enter();
        self.0.receiver.work(work).await
    }

    /// Keeps the connection of a request until the result is dropped.
    pub fn keep_connection(&self, request: &Request) -> KeptConnection {
        let drain = self.0.drain.clone();
        KeptConnection { _place: request.extensions().get().cloned(), _busy: drain.enter(), drain }
    }

    /// Submits a request to the engine of a model. Without streaming, its completion is the only event.
    ///
    /// # Errors
    /// The queue is full, or the engine has failed.
    pub fn generate(&self, model: &ModelHandle, request: spag_model::Request) -> Result<Generation, ApiError> {
        let sequences = model.0.model.engine.submit(vec![request], &model.0.adapter)?;
        Ok(Generation { sequences, _busy: self.0.drain.enter() })
    }
}

impl KeptConnection {
    /// Waits for shutdown. The connection should close soon after.
    pub async fn server_ends(&self) {
        self.drain.begun().await;
    }
}

impl ModelHandle {
    /// The adapter's name, or the model's first name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.0.model.tokenizer()
    }

    /// Its prompt encoder, with the chat template.
    pub fn encoder(&self) -> &PromptEncoder {
        &self.0.model.encoder
    }

    /// The tokens of a prompt. If it exceeds the context, its beginning is truncated.
    ///
    /// # Errors
    /// 400 if it is too long to encode; the tokenizer cannot encode it; or the model has no template for a chat.
    pub fn encode(&self, prompt: &TurnPrompt) -> Result<Vec<u32>, ApiError> {
        let failed = |error: spag_chat::Error| ApiError::server(error.to_string());
        let text = self.encoder().text(prompt).map_err(failed)?;
        TextLength::Any.check("history", text.text().len(), &self.0.model)?;
        self.encoder().begin(prompt, &text).map_err(failed)
    }

    /// Maximum tokens of a prompt and its completion.
    pub fn max_length(&self) -> usize {
        self.0.model.max_length
    }
}

/// A request in progress, aborted on drop. Shutdown waits until it is dropped.
pub struct Generation {
    sequences: Sequences,
    _busy: Busy,
}

impl Generation {
    /// The next event. `Finished` is the last one.
    ///
    /// # Errors
    /// The request or the engine failed. No more events follow.
    pub async fn next(&mut self) -> Result<Event, ApiError> {
        self.sequences.next().await.map(|(_, event)| event)
    }

    /// [`Generation::next`] without waiting.
    pub fn try_next(&mut self) -> Option<Result<Event, ApiError>> {
        Some(self.sequences.try_next()?.map(|(_, event)| event))
    }
}
