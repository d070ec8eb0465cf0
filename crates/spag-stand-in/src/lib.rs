//! Stands in for `libcuda`, `libcublas`, `libcublasLt`, `libcurand`, `libcudart` and `libnccl`, so that programs built with the feature `cuda` run,
//! unchanged, on a machine without a GPU. `scripts/stand-in.sh` builds the libraries and runs programs and tests with them.
//!
//! Memory of the device is memory of the host, at addresses that the host cannot use; our kernels are those of spag-emulator, found
//! by name, and candle's are written again in `candle`. Streams are threads, so work is done late, as on a device. Collectives go
//! over sockets on the loopback interface.
//!
//! Where a device would fail, a call returns the driver's error. Where a device would be wrong in silence, or sometimes, the
//! process ends with exit code 70 and a message, for example:
//!
//! - work that is not ordered after work on another stream whose memory it uses (`order`: a clock of each stream),
//! - memory that is used after it was freed, outside its bounds, or by a graph that is replayed later;
//! - host memory that changes, or is released, before its copy has run;
//! - work of one thread that is recorded into a graph of another, or a product without workspace in a graph;
//! - collectives that differ between ranks.
//!
//! What it cannot show: speed, races between threads of a kernel, the numbers of tensor cores, and differences between the
//! driver's documentation, which this crate follows, and its behaviour.
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
