//! The kernels that this processor computes with. They are chosen here and nowhere else.

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The variable that forces a path, for tests and measurements.
const VARIABLE: &str = "SPAG_CPU";

/// Kernels of a CPU. Each path has those of the paths before it, and computes with the last that apply.
///
/// Products of f32 have the same bits on all paths. Products of bf16 weights are rounded in their own way by
/// AVX512-BF16 and by AMX; on every path, a row depends neither on the other rows nor on the number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuPath {
    /// Loops of the compiler's baseline: correct on any processor, and slow where it has no fused multiply-add.
    Portable,
    /// AVX2 with FMA: products and attention in f32. bf16 weights, keys and values are widened as they are read.
    Avx2,
    /// AVX-512: as AVX2, with registers of twice the width.
    Avx512,
    /// AVX512-BF16: dot products of pairs of bf16.
    Avx512Bf16,
    /// AMX-BF16: products of tiles of bf16.
    Amx,
}

/// What was found and asked for, once per process.
struct Choice {
    path: CpuPath,
    problem: Option<String>,
}

impl CpuPath {
    /// All paths, the slowest first.
    pub const ALL: [Self; 5] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Bf16, Self::Amx];

    /// The name, as in `SPAG_CPU`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Amx => "amx",
        }
    }

    /// Whether the processor, and for tiles the operating system, support the path.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            match self {
                Self::Portable => true,
                Self::Avx2 => {
                    let bits = has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("movbe") && has!("popcnt");
                    has!("avx2") && has!("fma") && has!("f16c") && bits
                }
                Self::Avx512 => {
                    let wide = has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq");
                    Self::Avx2.is_available() && wide && has!("avx512vl")
                }
                Self::Avx512Bf16 => Self::Avx512.is_available() && has!("avx512bf16"),
                Self::Amx => Self::Avx512Bf16.is_available() && super::amx::is_available(),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Self::Portable
        }
    }

    /// The path of this process: the one that `SPAG_CPU` names, or the fastest available one.
    ///
    /// # Errors
    /// `SPAG_CPU` names a path that does not exist or that the processor does not have.
    pub fn selected() -> Result<Self> {
        match &choice().problem {
            None => Ok(choice().path),
            Some(reason) => Err(Error::Device { device: "cpu".into(), reason: reason.clone() }),
        }
    }

    /// As [`CpuPath::selected`], for ops: programs report an invalid variable when they open the device.
    #[inline]
    pub(crate) fn current() -> Self {
        choice().path
    }
}

impl std::fmt::Display for CpuPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

fn choice() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(|| {
        let asked = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
        choose(asked.as_deref().unwrap_or_default(), CpuPath::is_available)
    })
}

/// The path for a value of the variable, which is empty if it is not set.
fn choose(asked: &str, is_available: impl Fn(CpuPath) -> bool) -> Choice {
    let mut from_fastest = CpuPath::ALL.into_iter().rev();
    if let Some(path) = CpuPath::ALL.into_iter().find(|path| path.name() == asked && is_available(*path)) {
        return Choice { path, problem: None };
    }
    let path = from_fastest.find(|path| is_available(*path)).unwrap_or(CpuPath::Portable);
    if asked.is_empty() {
        return Choice { path, problem: None };
    }
    let list = |paths: &[CpuPath], last: &str| match paths.split_last() {
        Some((path, [])) => path.name().to_owned(),
        Some((path, others)) => {
            format!("{} {last} {path}", others.iter().map(|path| path.name()).collect::<Vec<_>>().join(", "))
        }
        None => String::new(),
    };
    let available: Vec<CpuPath> = CpuPath::ALL.into_iter().filter(|path| is_available(*path)).collect();
    let expected = match CpuPath::ALL.iter().any(|path| path.name() == asked) {
        true => String::new(),
        false => format!("expected {}; ", list(&CpuPath::ALL, "or")),
    };
    let problem = format!("{VARIABLE}={asked}: {expected}this processor has {}", list(&available, "and"));
    Choice { path, problem: Some(problem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_selects_an_available_path() {
        let has = |paths: &'static [CpuPath]| move |path: CpuPath| paths.contains(&path);
        let four = has(&[CpuPath::Portable, CpuPath::Avx2, CpuPath::Avx512, CpuPath::Avx512Bf16]);
        let found = |asked: &str| {
            let choice = choose(asked, four);
            (choice.path, choice.problem)
        };
        assert_eq!(found(""), (CpuPath::Avx512Bf16, None));
        for path in [CpuPath::Portable, CpuPath::Avx2, CpuPath::Avx512, CpuPath::Avx512Bf16] {
            assert_eq!(found(path.name()), (path, None));
        }
        let (_, problem) = found("amx");
        assert_eq!(problem.unwrap(), "SPAG_CPU=amx: this processor has portable, avx2, avx512 and avx512bf16");
        let (_, problem) = found("AVX512");
        assert_eq!(
            problem.unwrap(),
            "SPAG_CPU=AVX512: expected portable, avx2, avx512, avx512bf16 or amx; this processor has portable, avx2, avx512 and avx512bf16"
        );
        assert_eq!(choose("", |_| true).path, CpuPath::Amx);
        assert_eq!(choose("avx512bf16", |_| true).path, CpuPath::Avx512Bf16);
        let problem = choose("avx512", has(&[CpuPath::Portable])).problem;
        assert_eq!(problem.unwrap(), "SPAG_CPU=avx512: this processor has portable");
    }
}
