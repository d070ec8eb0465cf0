//! What all requests share.

use crate::auth::ApiKeys;
use crate::browser::Sites;
use crate::drain::Drain;
use crate::metrics::Metrics;
use crate::pool::ModelPool;
use crate::receive::Receiver;
use crate::workers::Workers;

/// Whether clients may load and unload adapters: paths of requests are then read by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdapterLoading {
    /// They may not.
    #[default]
    Refused,
    /// They may.
    Allowed,
}

/// What all requests share.
pub(crate) struct App {
    pub(crate) pool: ModelPool,
    pub(crate) metrics: Metrics,
    pub(crate) sites: Sites,
    pub(crate) keys: Option<ApiKeys>,
    pub(crate) receiver: Receiver,
    /// Those who compile languages.
    pub(crate) compilers: Workers,
    pub(crate) drain: Drain,
    pub(crate) adapter_loading: AdapterLoading,
}
