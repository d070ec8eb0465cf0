//! Requirements on CUDA devices and drivers, as functions of plain numbers, so that they can be tested without a
//! GPU.
#![cfg_attr(not(feature = "cuda"), allow(dead_code))]

/// A CUDA version in the drivers' encoding: 13000 is 13.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CudaVersion(pub(super) u32);

impl CudaVersion {
    /// The oldest driver branch that supports this version, from the toolkit's release notes.
    fn driver(self) -> Option<u32> {
        match self.0 / 10 {
            1300 => Some(580),
            1290 => Some(575),
            1280 => Some(570),
            1260 => Some(560),
            1250 => Some(555),
            1240 => Some(550),
            1230 => Some(545),
            1220 => Some(535),
            1210 => Some(530),
            1200 => Some(525),
            _ => None,
        }
    }
}

impl std::fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// A compute capability in tenths: 80 is 8.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Capability(pub(super) u32);

impl std::fmt::Display for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// Minimum compute capability of the kernels.
const LEAST: Capability = Capability(80);

/// Checks that the driver supports code compiled by version `built`.
pub(super) fn check_driver(driver: CudaVersion, built: CudaVersion) -> Result<(), String> {
    if driver >= built {
        return Ok(());
    }
    let newer = match built.driver() {
        Some(branch) => format!("install driver {branch} or newer"),
        None => "install a newer driver".to_owned(),
    };
    Err(format!(
        "the NVIDIA driver knows CUDA up to {driver}, and this program was compiled with CUDA {built}; {newer}, build with \
         a CUDA toolkit of {driver} or older, or use --device cpu"
    ))
}

/// Checks that a GPU runs code compiled for `built`.
pub(super) fn check_capability(gpu: &str, found: Capability, built: Capability) -> Result<(), String> {
    // From 9.0 on, candle compiles its own kernels for one GPU generation only.
    let (runs, range) = if built >= Capability(90) { (found == built, "only") } else { (found >= built, "and newer") };
    if runs {
        return Ok(());
    }
    Err(if found < LEAST {
        format!("{gpu} has compute capability {found}, and the kernels need {LEAST}; use another GPU, or --device cpu")
    } else {
        format!(
            "{gpu} has compute capability {found}, and this program was compiled for {built} {range}; rebuild with \
             CUDA_COMPUTE_CAP={}",
            LEAST.0
        )
    })
}

/// The index of the device to use.
pub(super) fn choose(asked: Option<usize>, local_rank: usize, visible: usize) -> Result<usize, String> {
    let numbers = match visible {
        0 => {
            return Err("the driver sees no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu".into());
        }
        1 => "only cuda:0 is".to_owned(),
        more => format!("cuda:0 to cuda:{} are", more - 1),
    };
    match asked {
        Some(index) if index < visible => Ok(index),
        Some(index) => {
            Err(format!("cuda:{index} does not exist; {numbers} visible (CUDA_VISIBLE_DEVICES may hide others)"))
        }
        // If a launcher exposes one GPU to each process, its index is 0 in every process.
        None if visible == 1 => Ok(0),
        None if local_rank < visible => Ok(local_rank),
        None => Err(format!(
            "this is local rank {local_rank}, and {numbers} visible; start one process per GPU, or name a device"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_must_be_as_new_as_the_compiler() {
        assert_eq!(check_driver(CudaVersion(13000), CudaVersion(13000)), Ok(()));
        assert_eq!(check_driver(CudaVersion(13010), CudaVersion(13000)), Ok(()));
        let error = check_driver(CudaVersion(12040), CudaVersion(13000)).unwrap_err();
        for part in ["up to 12.4", "CUDA 13.0", "driver 580 or newer", "--device cpu"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn gpu_must_support_the_compiled_capability() {
        let check = |found, built| check_capability("NVIDIA X", Capability(found), Capability(built));
        for (found, built) in [(80, 80), (90, 80), (90, 90), (100, 80), (120, 86)] {
            assert_eq!(check(found, built), Ok(()), "{found} {built}");
        }
        let error = check(80, 90).unwrap_err();
        for part in ["NVIDIA X", "capability 8.0", "for 9.0 only", "CUDA_COMPUTE_CAP=80"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(check(100, 90).unwrap_err().contains("9.0 only"));
        assert!(check(75, 80).unwrap_err().contains("the kernels need 8.0; use another GPU"));
    }

    #[test]
    fn each_local_rank_gets_its_own_device() {
        assert_eq!([choose(None, 0, 8), choose(None, 5, 8), choose(Some(3), 5, 8)], [Ok(0), Ok(5), Ok(3)]);
        assert_eq!(choose(None, 5, 1), Ok(0), "the only one that is shown");
        assert!(choose(Some(8), 0, 8).unwrap_err().contains("cuda:8 does not exist; cuda:0 to cuda:7 are visible"));
        assert!(choose(Some(1), 0, 1).unwrap_err().contains("only cuda:0 is visible"));
        assert!(choose(None, 4, 4).unwrap_err().contains("local rank 4"));
        assert!(choose(None, 0, 0).unwrap_err().contains("CUDA_VISIBLE_DEVICES"));
    }
}
