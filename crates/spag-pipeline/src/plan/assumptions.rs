//! What a plan assumes of the hardware, beside its published figures.

use serde::Serialize;

/// Assumptions, printed with every estimate. On an H100, training steps of 3.5B parameters reached 47 to 54% of the peak, and decoding
/// passes of 1 to 64 rows of 7B 67 to 80% of the bandwidth (docs/log/gpu.md).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Assumptions {
    /// Share of the peak that matrix products reach.
    pub(crate) flops_share: f64,
    /// Share of a memory's bandwidth that is reached.
    pub(crate) memory_share: f64,
    /// Share of a link's bandwidth that is reached.
    pub(crate) link_share: f64,
    /// Bytes per second between hosts, per host and in each direction.
    pub(crate) network_bytes: f64,
    /// GiB that the driver takes of a GPU.
    pub(crate) driver_gib: f64,
}

impl Assumptions {
    pub(crate) fn new(network_gbit: f64) -> Self {
        Self {
            flops_share: 0.5,
            memory_share: 0.75,
            link_share: 0.7,
            network_bytes: network_gbit * 1e9 / 8.0,
            driver_gib: 0.6,
        }
    }
}
