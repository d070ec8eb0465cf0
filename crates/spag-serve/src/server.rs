//! The server: socket, signals and shutdown.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use spag_io::catch_panic;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::app::{AdapterLoading, App};
use crate::auth::ApiKeys;
use crate::background::Background;
use crate::browser::Sites;
use crate::connections::Connections;
use crate::drain::Drain;
use crate::error::{Error, Result};
use crate::extension::{Routes, Services};
use crate::limits::{COMPILERS, Limits, QueueLimits, WORKERS};
use crate::model::ModelToServe;
use crate::pool::ModelPool;
use crate::receive::Receiver;
use crate::router::router;
use crate::workers::Workers;

/// Maximum network threads. Engines have their own.
const NETWORK_THREADS: usize = 4;

/// Settings of a server.
#[derive(Debug)]
pub struct ServerConfig {
    /// Host name or address to listen on.
    pub host: String,
    /// Port to listen on; 0 for any free port.
    pub port: u16,
    /// API keys of clients; without them, all clients are served.
    pub keys: Option<ApiKeys>,
    /// The limits.
    pub limits: Limits,
    /// The queue of each model.
    pub queue: QueueLimits,
    /// Accepted host names in addition to those of this machine: `*`, or e.g. `play.example.org`. If empty, a server on a
    /// loopback address accepts hosts of this machine, and any other server accepts all.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may use the server, in addition to its own: `*`, or e.g. `https://example.org`.
    pub cors_origins: Vec<String>,
    /// Whether clients may load adapters.
    pub adapter_loading: AdapterLoading,
}

impl ServerConfig {
    /// A server on a host and port, with defaults otherwise: no keys, and no access for pages of other origins.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            keys: None,
            limits: Limits::default(),
            queue: QueueLimits::default(),
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            adapter_loading: AdapterLoading::default(),
        }
    }
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// After the first SIGTERM or SIGINT, once all requests had finished.
    Drained,
    /// Immediately, by a second signal.
    Interrupted,
    /// As [`Ended::Interrupted`]; the second signal was SIGTERM.
    Terminated,
}

/// A listening server. Clients can connect; they are answered once it runs.
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    router: Router,
    limits: Limits,
    /// Set to true if an engine fails.
    faulty: watch::Receiver<bool>,
    /// `None` while signals are left to the program.
    signals: Option<Signals>,
}

impl Server {
    /// Starts the engines of `models` and listens. The first model answers requests that name none.
    ///
    /// # Errors
    /// The server cannot listen on the address, or a model cannot be served with these settings.
    pub fn bind(config: ServerConfig, models: Vec<ModelToServe>) -> Result<Self> {
        Self::bind_with(config, models, |_| Routes::new())
    }

    /// [`Server::bind`] with additional routes, returned by `add`. Without models, the server has these, `/health`,
    /// `/version` and `/metrics`.
    ///
    /// # Errors
    /// As [`Server::bind`], or an added route has the path of an existing one.
    pub fn bind_with(
        config: ServerConfig,
        models: Vec<ModelToServe>,
        add: impl FnOnce(Services) -> Routes,
    ) -> Result<Self> {
        let ServerConfig { host, port, keys, limits, queue, allowed_hosts, cors_origins, adapter_loading } = config;
        let threads = (std::thread::available_parallelism().map_or(1, usize::from) / 2).clamp(1, NETWORK_THREADS);
        let build = || {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads).max_blocking_threads(WORKERS + COMPILERS).enable_io().enable_time().build()
        };
        // The library panics if the system cannot start threads.
        let runtime =
            catch_panic(build).map_err(std::io::Error::other).and_then(|built| built).map_err(Error::Start)?;
        let listen = |source| Error::Listen { address: format!("{host}:{port}"), source };
        let listener = runtime.block_on(listen_on(&host, port, limits.max_connections)).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let sites = Sites::new(address, allowed_hosts, cors_origins)?;
        let (fault, faulty) = watch::channel(false);
        let (pool, metrics) = ModelPool::start(models, &queue, &fault)?;
        let (receiver, drain) = (Receiver::new(limits), Drain::default());
        let compilers = Workers::new(COMPILERS);
        let app = Arc::new(App { pool, metrics, sites, keys, receiver, compilers, drain, adapter_loading });
        let router = router(app.clone(), add(Services::new(app.clone())))?;
        Ok(Self { runtime, listener, address, app, router, limits, faulty, signals: None })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The names of models without chat support, with the cause: no chat template, or an unusable one.
    pub fn without_chats(&self) -> impl Iterator<Item = (&str, spag_chat::Error)> {
        self.app.pool.models.iter().filter_map(|model| Some((model.name(), model.encoder.template().err()?)))
    }

    /// Handles SIGTERM and SIGINT from now on: a signal before [`Server::run`] stops it like a later one. Call this before announcing
    /// the address.
    ///
    /// # Errors
    /// Signal handlers cannot be installed.
    pub fn take_signals(&mut self) -> Result<()> {
        let _runtime = self.runtime.enter();
        self.signals = Some(Signals::new()?);
        Ok(())
    }

    /// Serves until SIGTERM or SIGINT, then refuses new requests and stops when the open ones have finished. A
    /// second signal stops it immediately.
    ///
    /// If an engine fails, `on_fault` receives the error immediately. From then on, requests of this model fail and
    /// `/health` reports it; other models continue.
    ///
    /// # Errors
    /// Signal handlers cannot be installed, or an engine has failed.
    pub fn run(mut self, on_fault: impl FnOnce(Error) + Send + 'static) -> Result<Ended> {
        if self.signals.is_none() {
            self.take_signals()?;
        }
        let Self { runtime, listener, app, router, limits, mut faulty, signals, .. } = self;
        let ended = runtime.block_on(async {
            let Some(mut signals) = signals else { return Ok(Ended::Drained) };
            let connections = Connections::new(&app, limits);
            tokio::spawn(connections.clone().accept(listener, router));
            let watched = app.clone();
            tokio::spawn(async move {
                if faulty.wait_for(|faulty| *faulty).await.is_ok()
                    && let Some(fault) = fault(&watched)
                {
                    on_fault(fault);
                }
            });
            signals.next().await;
            tokio::select! {
                () = connections.finish() => Ok(Ended::Drained),
                ended = signals.next() => Ok(ended),
            }
        });
        // Remaining requests and engines end with the process.
        runtime.shutdown_background();
        fault(&app).map_or(ended, Err)
    }

    /// Serves on background threads until the result is dropped. Signals are left to the program.
    pub fn start(self) -> Background {
        let Self { runtime, listener, address, app, router, limits, .. } = self;
        let connections = Connections::new(&app, limits);
        runtime.spawn(connections.clone().accept(listener, router));
        Background::new(address, runtime, connections)
    }
}

/// Listens on the first usable address of a host. `waiting` is the backlog of connections to be accepted; the system drops
/// those beyond it.
async fn listen_on(host: &str, port: u16, waiting: usize) -> std::io::Result<TcpListener> {
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    let mut failed = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
    for address in lookup_host((host, port)).await? {
        let open = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // Lets a restarted server reuse the address while old connections time out.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(waiting)
        };
        match open() {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The error of a failed engine, if any.
fn fault(app: &App) -> Option<Error> {
    let (model, reason) = app.pool.fault()?;
    Some(Error::Engine { model: model.to_owned(), reason: reason.to_owned() })
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let install = |kind| signal(kind).map_err(Error::Start);
        Ok(Self { interrupt: install(SignalKind::interrupt())?, terminate: install(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Ended {
        tokio::select! {
            _ = self.interrupt.recv() => Ended::Interrupted,
            _ = self.terminate.recv() => Ended::Terminated,
        }
    }
}
