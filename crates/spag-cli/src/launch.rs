//! How many processes a program may be one of.

use spag_dist::{LaunchEnv, Launcher};

use crate::{Error, Result};

/// Refuses to be one of several processes; each would do all of the work.
///
/// # Errors
/// [`Error::ManyProcesses`], or a broken launcher environment.
pub fn require_single_process(does: &'static str) -> Result<()> {
    refuse_many(&LaunchEnv::detect()?, does)
}

fn refuse_many(env: &LaunchEnv, does: &'static str) -> Result<()> {
    let launcher = match env.launcher {
        Launcher::Direct => "this shell",
        Launcher::Torch => "torchrun (WORLD_SIZE)",
        Launcher::Slurm => "srun (SLURM_NTASKS)",
        Launcher::OpenMpi => "mpirun (OMPI_COMM_WORLD_SIZE)",
    };
    match env.world_size {
        0 | 1 => Ok(()),
        size => Err(Error::ManyProcesses { launcher, size, does }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_is_fine_and_two_are_not() {
        assert!(refuse_many(&LaunchEnv::single(), "plays").is_ok());
        let two = LaunchEnv { launcher: Launcher::Torch, world_size: 2, ..LaunchEnv::single() };
        let message = refuse_many(&two, "plays").unwrap_err().to_string();
        assert!(
            message.contains("torchrun (WORLD_SIZE) started 2 processes") && message.contains("plays in one process")
        );
    }
}
