//! Rendezvous of the ranks of a run, and collectives on flat buffers.
//!
//! - [`LaunchEnv`] reads rank, world size and rendezvous from the environment of a launcher (`spag launch`, `torchrun`,
//!   `srun`, `mpirun`).
//! - [`ProcessGroup`] runs [`Collective`]s on 1-D tensors. [`Single`] is the group of one process, [`TcpGroup`] a ring
//!   of CPU ranks, and `NcclGroup` (feature `cuda`) a group of NVIDIA GPUs. [`join`] and [`join_on`] choose between
//!   them. [`ProcessGroup::by_host`] gives the groups within a host and between hosts. [`SimulatedGroup`] is a rank of a group whose
//!   others do not exist.
//! - [`launch`] starts the ranks of a run on a machine and stops them together.
//! - [`queue`] assigns the items of a list to ranks, and reassigns the items of dead ranks.
//!
//! Models, tokens and games are not part of this crate; buffers have lengths, not shapes.
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
//! // In a group of one process a sum changes nothing.
//! let gradient = Tensor::new(&[1f32, 2.0], &Device::Cpu)?;
//! Single.all_reduce(&gradient)?;
//! assert_eq!(gradient.to_vec1::<f32>()?, [1.0, 2.0]);
//! # Ok::<(), spag_dist::Error>(())
//! ```

#[cfg(any(feature = "cuda", test))]
mod answer;
#[cfg(feature = "cuda")]
mod cuda;
mod env;
mod error;
mod exchange;
mod group;
mod hosts;
pub mod launch;
#[cfg(feature = "cuda")]
mod nccl;
mod net;
#[cfg(any(feature = "cuda", test))]
mod pending_collectives;
pub mod queue;
mod simulated;
mod tcp;

pub use env::{DEFAULT_PORT, LaunchEnv, Launcher, MAX_WORLD_SIZE, Rendezvous};
pub use error::{Error, Result};
pub use exchange::{agree, broadcast_text, gather_lists, gather_numbers, gather_texts};
pub use group::{Collective, Pending, ProcessGroup, Single, Traffic};
pub use hosts::HostGroups;
#[cfg(feature = "cuda")]
pub use nccl::NcclGroup;
pub use net::{JoinOptions, PortChoice, RESTART_COUNT_VARIABLE, Token};
pub use simulated::{GatherPriority, SimulatedGroup, SimulatedRanks};
pub use tcp::TcpGroup;

/// Joins the process group of `env` for buffers on `device`: [`Single`] for one process, otherwise a [`TcpGroup`] for the
/// CPU or an `NcclGroup` for an NVIDIA GPU (feature `cuda`), which also accepts CPU buffers.
///
/// # Errors
/// As [`TcpGroup::join`]; or this build has no group for the device.
pub fn join_on(
    env: &LaunchEnv,
    options: &JoinOptions,
    device: &candle_core::Device,
) -> Result<std::sync::Arc<dyn ProcessGroup>> {
    match device {
        _ if env.world_size == 1 => Ok(std::sync::Arc::new(Single)),
        candle_core::Device::Cpu => Ok(std::sync::Arc::new(TcpGroup::join(env, options)?)),
        #[cfg(feature = "cuda")]
        candle_core::Device::Cuda(_) => Ok(std::sync::Arc::new(NcclGroup::join(env, options, device)?)),
        _ => Err(Error::NoGroup { device: format!("{device:?}") }),
    }
}

/// Joins the process group of `env` for buffers on the CPU: [`Single`] for one process, otherwise a [`TcpGroup`].
///
/// # Errors
/// As [`TcpGroup::join`].
pub fn join(env: &LaunchEnv, options: &JoinOptions) -> Result<std::sync::Arc<dyn ProcessGroup>> {
    join_on(env, options, &candle_core::Device::Cpu)
}
