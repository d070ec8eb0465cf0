//! Accepts and serves connections.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use crate::app::App;
use crate::half_close::{ClientStream, Exchange};
use crate::limits::{HEADER_BUFFER, Limits, MAX_HEADERS};

/// Pause after accepting a connection failed, for instance because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A connection's slot among those of the server, freed on drop.
pub(crate) struct Place {
    app: Arc<App>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    pub(crate) fn new(permit: OwnedSemaphorePermit, app: Arc<App>) -> Self {
        app.metrics.connections.inc();
        Self { app, _permit: permit }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.metrics.connections.dec();
    }
}

/// Accepts connections and serves them.
#[derive(Clone)]
pub(crate) struct Connections {
    app: Arc<App>,
    limits: Limits,
    /// Set to true when connections must close after their current response.
    ending: Arc<watch::Sender<bool>>,
    places: Arc<Semaphore>,
}

impl Connections {
    pub(crate) fn new(app: &Arc<App>, limits: Limits) -> Self {
        let places = limits.max_connections.min(Semaphore::MAX_PERMITS);
        Self {
            app: app.clone(),
            limits,
            ending: Arc::new(watch::Sender::new(false)),
            places: Arc::new(Semaphore::new(places)),
        }
    }

    /// Accepts connections until the runtime ends.
    pub(crate) async fn accept(self, listener: TcpListener, router: Router) {
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (this, router) = (self.clone(), router.clone());
                    let place = Arc::new(Place::new(place, this.app.clone()));
                    tokio::spawn(async move { this.serve(stream, router, place).await });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    async fn serve(&self, stream: TcpStream, router: Router, place: Arc<Place>) {
        // Writes are sent immediately.
        let _ = stream.set_nodelay(true);
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.read_timeout())
            .max_headers(MAX_HEADERS)
            .max_buf_size(HEADER_BUFFER);
        let exchange = Exchange::new();
        let mut stream = TimeoutStream::new(ClientStream::new(stream, exchange.clone()));
        stream.set_write_timeout(Some(self.limits.write_timeout()));
        let stream = TokioIo::new(Box::pin(stream));
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(place.clone());
            let (answer, exchange) = (router.call(exchange.request(request)), exchange.clone());
            async move { answer.await.map(|response| exchange.response(response)) }
        });
        let mut connection = pin!(builder.serve_connection(stream, service).with_upgrades());
        let mut ending = self.ending.subscribe();
        // Errors are the client's: it has disconnected, or does not speak HTTP.
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = ending.wait_for(|ending| *ending) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }

    /// Refuses new requests, then waits until those in progress are answered.
    pub(crate) async fn finish(&self) {
        self.app.drain.begin();
        self.app.drain.done().await;
        self.ending.send_replace(true);
        // A client that does not read must not block shutdown.
        let _ = tokio::time::timeout(self.limits.read_timeout(), self.ending.closed()).await;
    }
}
