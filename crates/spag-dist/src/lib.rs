//! Ranks and buffers: how the processes of one run find each other and exchange flat arrays of numbers.
//!
//! - [`LaunchEnv`] reads what a launcher (`torchrun`, `srun`, `mpirun`) put into the environment:
//!   which rank this process is, out of how many, and where the others meet.
//! - [`ProcessGroup`] does [`Collective`]s, which training is made of, on flat buffers: tensors of one dimension.
//!   [`Single`] is the group of one process, [`TcpGroup`] that of CPU ranks in a ring; [`join`] gives the one that fits.
//!   `NcclGroup` (feature `cuda`) moves buffers on NVIDIA GPUs, and [`Simulated`] models links that are not there.
//! - [`queue`] hands out items of a list to ranks that may die.
//!
//! This crate knows nothing of models, tokens or games; buffers have lengths, not shapes.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use spag_dist::{LaunchEnv, ProcessGroup, Single};
//!
//! // The environment of the second of two processes, as torchrun would set it.
//! let env = LaunchEnv::detect_with(|name| {
//!     let value = match name {
//!         "RANK" | "LOCAL_RANK" => "1",
//!         "WORLD_SIZE" => "2",
//!         "MASTER_ADDR" => "127.0.0.1",
//!         "MASTER_PORT" => "29500",
//!         _ => return None,
//!     };
//!     Some(value.into())
//! })?;
//! assert_eq!((env.rank, env.world_size), (1, 2));
//!
//! // A process on its own: summing over all ranks changes nothing.
//! let gradient = Tensor::new(&[1f32, 2.0], &Device::Cpu)?;
//! Single.all_reduce(&gradient)?;
//! assert_eq!(gradient.to_vec1::<f32>()?, [1.0, 2.0]);
//! # Ok::<(), spag_dist::Error>(())
//! ```

mod env;
mod error;
mod exchange;
mod group;
mod hostlist;
#[cfg(feature = "cuda")]
mod nccl;
mod net;
pub mod queue;
mod simulated;
mod single;
mod tcp;

pub use env::{DEFAULT_PORT, LaunchEnv, Launcher, Rendezvous};
pub use error::{Error, Result};
pub use exchange::{agree, gather_numbers, gather_texts, text_of_first};
pub use group::{Collective, Pending, ProcessGroup, Traffic};
#[cfg(feature = "cuda")]
pub use nccl::NcclGroup;
pub use net::{
    COLLECTIVE_TIMEOUT, HEARTBEAT, JOIN_TIMEOUT, JoinOptions, PORT_VARIABLE, PortChoice, SILENCE, START_VARIABLE,
    TOKEN_VARIABLE, Token,
};
pub use simulated::{Link, Links, Simulated};
pub use single::Single;
pub use tcp::TcpGroup;

/// Joins the ranks that `env` speaks of, with buffers on `device`: [`Single`] for a process on its own, else a
/// [`TcpGroup`] for the CPU and an `NcclGroup` for an NVIDIA GPU (feature `cuda`), which takes buffers on the CPU too.
///
/// # Errors
/// As [`TcpGroup::join`]; a device for which this program has no group.
pub fn join_on(
    env: &LaunchEnv,
    options: &JoinOptions,
    device: &candle_core::Device,
) -> Result<std::sync::Arc<dyn ProcessGroup>> {
    match device {
        _ if env.world_size == 1 => Ok(std::sync::Arc::new(Single)),
        candle_core::Device::Cpu => join(env, options),
        #[cfg(feature = "cuda")]
        candle_core::Device::Cuda(_) => Ok(std::sync::Arc::new(NcclGroup::join(env, options, device)?)),
        _ => Err(Error::System { what: "a group", reason: format!("this program has none for {device:?}") }),
    }
}

/// Joins the ranks that `env` speaks of, with buffers on the CPU: [`Single`] for a process on its own, else a
/// [`TcpGroup`].
///
/// # Errors
/// As [`TcpGroup::join`].
pub fn join(env: &LaunchEnv, options: &JoinOptions) -> Result<std::sync::Arc<dyn ProcessGroup>> {
    match env.world_size {
        1 => Ok(std::sync::Arc::new(Single)),
        _ => Ok(std::sync::Arc::new(TcpGroup::join(env, options)?)),
    }
}
