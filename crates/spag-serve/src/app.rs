//! State shared by all requests.

use crate::auth::ApiKeys;
use crate::browser::Sites;
use crate::drain::Drain;
use crate::metrics::Metrics;
use crate::pool::ModelPool;
use crate::receive::Receiver;
use crate::workers::Workers;

/// Whether clients may load and unload adapters, which lets requests name paths on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdapterLoading {
    /// Not allowed.
    #[default]
    Refused,
    /// Allowed.
    Allowed,
}

/// State shared by all requests.
pub(crate) struct App {
    pub(crate) pool: ModelPool,
    pub(crate) metrics: Metrics,
    pub(crate) sites: Sites,
    pub(crate) keys: Option<ApiKeys>,
    pub(crate) receiver: Receiver,
    /// Workers that compile languages.
    pub(crate) compilers: Workers,
    pub(crate) drain: Drain,
    pub(crate) adapter_loading: AdapterLoading,
}
