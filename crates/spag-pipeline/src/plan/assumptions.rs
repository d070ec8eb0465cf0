//! What a plan assumes of the hardware, beside its published figures.

use serde::Serialize;

/// Assumptions, printed with every estimate. On an H100, training steps of 3.5B parameters reached 47 to 54% of the peak, decoding
/// passes of 1 to 64 rows of 7B 67 to 80% of the bandwidth, and AdamW 99% of it (docs/log/gpu.md).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Assumptions {
    /// Share of the peak that matrix products reach.
    pub(crate) flops_share: f64,
    /// Share of a memory's bandwidth that is reached, on the device and on the host.
    pub(crate) memory_share: f64,
    /// Share of a link's bandwidth that is reached.
    pub(crate) link_share: f64,
    /// Bytes per second between hosts, per host and in each direction.
    pub(crate) network_bytes: f64,
    /// Bytes per second between the processors of a host and its memory: those of a socket with eight channels of DDR4-3200.
    pub(crate) host_memory_bytes: f64,
    /// Bytes per second at which all ranks together write a checkpoint.
    pub(crate) disk_bytes: f64,
    /// Bytes of text per token, if samples are read without a tokenizer.
    pub(crate) text_bytes: f64,
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
            host_memory_bytes: 204.8e9,
            disk_bytes: 1e9,
            text_bytes: 4.0,
            driver_gib: 0.6,
        }
    }

    /// The assumptions for people, but for that of texts.
    pub(crate) fn lines(&self) -> [String; 2] {
        [
            format!(
                "assumed: {:.0}% of the FLOP/s, {:.0}% of the link bandwidth and {:.0}% of the memory bandwidth are reached; each GPU has \
                 a link of its own to the host",
                100.0 * self.flops_share,
                100.0 * self.link_share,
                100.0 * self.memory_share
            ),
            format!(
                "assumed: {} between hosts (network), {} between a host and its memory, {} to the disk of checkpoints, {} GiB of \
                 each GPU for the driver",
                giga(self.network_bytes),
                giga(self.host_memory_bytes),
                giga(self.disk_bytes),
                self.driver_gib
            ),
        ]
    }
}

/// A bandwidth for people.
pub(crate) fn giga(bytes: f64) -> String {
    format!("{:.0} GB/s", bytes / 1e9)
}
