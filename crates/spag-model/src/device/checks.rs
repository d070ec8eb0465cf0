//! What a CUDA device has to be for this program: rules on plain numbers, so that they are tested without one.
#![cfg_attr(not(feature = "cuda"), allow(dead_code))]

/// A version of CUDA as drivers and compilers count it: 13000 is 13.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CudaVersion(pub(super) u32);

impl CudaVersion {
    /// The first driver branch that takes code of this version, as NVIDIA's release notes of the toolkit list them.
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

/// A compute capability: 80 is 8.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Capability(pub(super) u32);

impl std::fmt::Display for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// The least compute capability that the kernels use instructions of.
const LEAST: Capability = Capability(80);

/// Whether the driver takes the code in this program, which the compiler of version `built` made.
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

/// Whether a GPU runs the code in this program, which was compiled for `built`.
pub(super) fn check_capability(gpu: &str, found: Capability, built: Capability) -> Result<(), String> {
    // From 9.0 on, candle compiles its own kernels with instructions that no other GPU has, later ones included.
    let (runs, on) = match built >= Capability(90) {
        true => (found == built, "alone"),
        false => (found >= built, "and newer"),
    };
    match runs {
        true => Ok(()),
        false if found < LEAST => Err(format!(
            "{gpu} has compute capability {found}, and the kernels need {LEAST}; use another GPU, or --device cpu"
        )),
        false => Err(format!(
            "{gpu} has compute capability {found}, and this program was compiled for {built} {on}; build it again with \
             CUDA_COMPUTE_CAP={}",
            LEAST.0
        )),
    }
}

/// The number of the device to use where so many are visible.
pub(super) fn choose(asked: Option<usize>, local_rank: usize, visible: usize) -> Result<usize, String> {
    let numbers = match visible {
        0 => {
            return Err(
                "the driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu".into()
            );
        }
        1 => "only cuda:0 is".to_owned(),
        more => format!("cuda:0 to cuda:{} are", more - 1),
    };
    match asked {
        Some(index) if index < visible => Ok(index),
        Some(index) => {
            Err(format!("there is no cuda:{index}; {numbers} visible (CUDA_VISIBLE_DEVICES may hide others)"))
        }
        // A launcher that shows each process its own GPU numbers it 0 for each of them.
        None if visible == 1 => Ok(0),
        None if local_rank < visible => Ok(local_rank),
        None => Err(format!(
            "this is process {local_rank} (from 0) of its machine, and {numbers} visible; start as many processes as there \
             are GPUs, or name a device"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_has_to_be_as_new_as_the_compiler() {
        assert_eq!(check_driver(CudaVersion(13000), CudaVersion(13000)), Ok(()));
        assert_eq!(check_driver(CudaVersion(13010), CudaVersion(13000)), Ok(()));
        let error = check_driver(CudaVersion(12040), CudaVersion(13000)).unwrap_err();
        for part in ["up to 12.4", "CUDA 13.0", "driver 580 or newer", "--device cpu"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn a_gpu_has_to_run_what_was_compiled() {
        let check = |found, built| check_capability("NVIDIA X", Capability(found), Capability(built));
        for (found, built) in [(80, 80), (90, 80), (90, 90), (100, 80), (120, 86)] {
            assert_eq!(check(found, built), Ok(()), "{found} {built}");
        }
        let error = check(80, 90).unwrap_err();
        for part in ["NVIDIA X", "capability 8.0", "for 9.0 alone", "CUDA_COMPUTE_CAP=80"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(check(100, 90).unwrap_err().contains("9.0 alone"));
        assert!(check(75, 80).unwrap_err().contains("the kernels need 8.0; use another GPU"));
    }

    #[test]
    fn each_process_has_a_device_of_its_own() {
        assert_eq!([choose(None, 0, 8), choose(None, 5, 8), choose(Some(3), 5, 8)], [Ok(0), Ok(5), Ok(3)]);
        assert_eq!(choose(None, 5, 1), Ok(0), "the only one that is shown");
        assert!(choose(Some(8), 0, 8).unwrap_err().contains("no cuda:8; cuda:0 to cuda:7 are visible"));
        assert!(choose(Some(1), 0, 1).unwrap_err().contains("only cuda:0 is visible"));
        assert!(choose(None, 4, 4).unwrap_err().contains("process 4"));
        assert!(choose(None, 0, 0).unwrap_err().contains("CUDA_VISIBLE_DEVICES"));
    }
}
