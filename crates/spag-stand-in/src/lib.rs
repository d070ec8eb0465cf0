//! Replaces `libcuda`, `libcublas`, `libcublasLt`, `libcurand`, `libcudart` and `libnccl`, so that programs built with the feature `cuda`
//! run unmodified on a machine without a GPU. `scripts/stand-in.sh` builds the libraries and runs programs and tests with them.
//!
//! Device memory is host memory at addresses that the host cannot dereference. Kernels of this repository run in spag-emulator;
//! candle's are reimplemented in `candle`. Streams are threads, so work is asynchronous, as on a device. Collectives use sockets on
//! the loopback interface.
//!
//! Where a device would fail, a call returns the driver's error. On errors that a device would not report, or only
//! sometimes, the process ends with exit code 70 and a message, for example:
//!
//! - work that is not ordered after other streams' work on the same memory (`order`: a vector clock per stream),
//! - memory used after free, out of bounds, or by a graph that is replayed later;
//! - host memory that changes, or is released, before its copy has run;
//! - work of one thread recorded into another thread's graph, or a product without workspace in a graph;
//! - collectives that differ between ranks.
//!
//! Not covered: speed, races between threads of a kernel, tensor core numerics, and differences between the driver's
//! behaviour and its documentation, which this crate follows.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `STAND_IN_CAPABILITY` | 90 | compute capability of the devices: 80, 86, 89 or 90 |
//! | `STAND_IN_MEMORY` | 8 GiB | memory that this process may allocate, in bytes |
//! | `STAND_IN_DEVICES` | 8 | number of devices |

mod call;
pub mod calls;
mod candle;
mod capture;
mod collectives;
mod fault;
mod kernel;
mod machine;
mod memory;
mod order;
mod product;
mod queue;
mod result;
mod work;

pub use result::Error;
