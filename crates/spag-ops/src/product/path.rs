//! Selects the CPU kernels of this process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// The environment variable that forces a path, for tests and measurements.
const VARIABLE: &str = "SPAG_CPU";

/// A set of CPU kernels. Each x86 path includes those of the x86 paths before it and uses the last that apply.
///
/// f32 products are bit-identical on all paths. Products with bf16 weights round differently with AVX512-BF16 and
/// AMX. On every path, a row depends neither on the other rows nor on the number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuPath {
    /// Loops compiled for the compiler's baseline: correct on any processor, and slow without fused multiply-add.
    Portable,
    /// NEON, present on all 64-bit Arm processors: products and attention in f32, as AVX2.
    Neon,
    /// AVX2 with FMA: products and attention in f32. bf16 weights, keys and values are converted to f32 on load.
    Avx2,
    /// AVX-512: as AVX2, with registers of twice the width.
    Avx512,
    /// AVX512-BF16: dot products of bf16 pairs.
    Avx512Bf16,
    /// AMX-BF16: products of bf16 tiles.
    Amx,
}

/// The requested and selected path, determined once per process.
#[derive(Debug, PartialEq)]
struct Choice {
    path: CpuPath,
    /// Why the requested path is not used.
    problem: Option<String>,
    /// Why faster paths of the processor are not used.
    note: Option<String>,
}

impl CpuPath {
    /// All paths, slowest first.
    pub const ALL: [Self; 6] = [Self::Portable, Self::Neon, Self::Avx2, Self::Avx512, Self::Avx512Bf16, Self::Amx];

    /// The name, as in `SPAG_CPU`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Amx => "amx",
        }
    }

    /// Whether the processor (and for tiles the operating system) supports the path.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            match self {
                Self::Portable => true,
                Self::Neon => false,
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
            self == Self::Portable || self == Self::Neon && cfg!(target_arch = "aarch64")
        }
    }

    /// The path of this process: the one named by `SPAG_CPU`, or the fastest available one. Kernels of AVX512-BF16 and AMX
    /// first multiply small test matrices; paths with wrong results are not used.
    ///
    /// # Errors
    /// `SPAG_CPU` names a path that does not exist, is not supported by the processor, or computes wrong results.
    pub fn selected() -> Result<Self> {
        match &choice().problem {
            None => Ok(choice().path),
            Some(reason) => Err(Error::Device { device: "cpu".into(), reason: reason.clone() }),
        }
    }

    /// A note on faster paths that are not used because they compute wrong results on this processor. Returned once per
    /// process, so that a program that opens the device several times prints it once.
    pub(crate) fn take_note() -> Option<&'static str> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let note = choice().note.as_deref()?;
        (!TAKEN.swap(true, Ordering::Relaxed)).then_some(note)
    }

    /// [`CpuPath::selected`] for ops: programs report an invalid variable when they open the device.
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
        #[cfg(target_arch = "x86_64")]
        let is_sound = super::self_check::is_sound;
        #[cfg(not(target_arch = "x86_64"))]
        let is_sound = |_| true;
        choose(asked.as_deref().unwrap_or_default(), CpuPath::is_available, is_sound)
    })
}

/// The path for a value of the variable, empty if unset. `is_sound` checks the kernels of an available path.
fn choose(asked: &str, is_available: impl Fn(CpuPath) -> bool, is_sound: impl Fn(CpuPath) -> bool) -> Choice {
    let named = CpuPath::ALL.into_iter().find(|path| path.name() == asked);
    let can_name = named.is_some_and(&is_available);
    if let Some(path) = named.filter(|path| can_name && is_sound(*path)) {
        return Choice { path, problem: None, note: None };
    }
    // If the kernels of the named path fail, only slower ones are tried.
    let below = named.filter(|_| can_name);
    let available: Vec<CpuPath> = CpuPath::ALL.into_iter().filter(|path| is_available(*path)).collect();
    let mut wrong = Vec::new();
    let mut path = CpuPath::Portable;
    for candidate in available.iter().rev().filter(|path| below.is_none_or(|below| **path < below)) {
        if is_sound(*candidate) {
            path = *candidate;
            break;
        }
        wrong.insert(0, *candidate);
    }
    if can_name {
        let problem = format!("{VARIABLE}={asked}: its kernels compute wrong results on this processor");
        return Choice { path, problem: Some(problem), note: None };
    }
    let list = |paths: &[CpuPath], last: &str| match paths.split_last() {
        Some((path, [])) => path.name().to_owned(),
        Some((path, others)) => {
            format!("{} {last} {path}", others.iter().map(|path| path.name()).collect::<Vec<_>>().join(", "))
        }
        None => String::new(),
    };
    let note = (!wrong.is_empty()).then(|| {
        format!("the kernels of {} compute wrong results on this processor; {path} is used", list(&wrong, "and"))
    });
    if asked.is_empty() {
        return Choice { path, problem: None, note };
    }
    let expected = match named {
        Some(_) => String::new(),
        None => format!("expected {}; ", list(&CpuPath::ALL, "or")),
    };
    let problem = format!("{VARIABLE}={asked}: {expected}this processor has {}", list(&available, "and"));
    Choice { path, problem: Some(problem), note }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_selects_an_available_path() {
        let has = |paths: &'static [CpuPath]| move |path: CpuPath| paths.contains(&path);
        let four = has(&[CpuPath::Portable, CpuPath::Avx2, CpuPath::Avx512, CpuPath::Avx512Bf16]);
        let found = |asked: &str| {
            let choice = choose(asked, four, |_| true);
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
            "SPAG_CPU=AVX512: expected portable, neon, avx2, avx512, avx512bf16 or amx; this processor has portable, avx2, avx512 and avx512bf16"
        );
        let (_, problem) = found("neon");
        assert_eq!(problem.unwrap(), "SPAG_CPU=neon: this processor has portable, avx2, avx512 and avx512bf16");
        let arm = |asked: &str| choose(asked, has(&[CpuPath::Portable, CpuPath::Neon]), |_| true);
        assert_eq!((arm("").path, arm("portable").path), (CpuPath::Neon, CpuPath::Portable));
        assert_eq!(arm("avx2").problem.unwrap(), "SPAG_CPU=avx2: this processor has portable and neon");
        assert_eq!(choose("", |_| true, |_| true).path, CpuPath::Amx);
        assert_eq!(choose("avx512bf16", |_| true, |_| true).path, CpuPath::Avx512Bf16);
        let problem = choose("avx512", has(&[CpuPath::Portable]), |_| true).problem;
        assert_eq!(problem.unwrap(), "SPAG_CPU=avx512: this processor has portable");
    }

    #[test]
    fn a_path_that_computes_wrong_results_is_not_used() {
        let choose = |asked: &str, wrong: &[CpuPath]| super::choose(asked, |_| true, |path| !wrong.contains(&path));
        let note = |text: &str| Some(format!("the kernels of {text} is used"));
        let no_tiles = choose("", &[CpuPath::Amx]);
        assert_eq!((no_tiles.path, no_tiles.problem), (CpuPath::Avx512Bf16, None));
        assert_eq!(no_tiles.note, note("amx compute wrong results on this processor; avx512bf16"));
        let neither = [CpuPath::Amx, CpuPath::Avx512Bf16];
        let found = choose("", &neither);
        assert_eq!((found.path, found.problem), (CpuPath::Avx512, None));
        assert_eq!(found.note, note("avx512bf16 and amx compute wrong results on this processor; avx512"));
        let asked = choose("amx", &neither);
        assert_eq!((asked.path, asked.note), (CpuPath::Avx512, None));
        assert_eq!(asked.problem.unwrap(), "SPAG_CPU=amx: its kernels compute wrong results on this processor");
        let sound = Choice { path: CpuPath::Avx512, problem: None, note: None };
        assert_eq!(choose("avx512", &neither), sound);
    }

    /// A path is checked only if no faster one is used.
    #[test]
    fn slower_paths_are_not_checked() {
        let checked = std::cell::RefCell::new(Vec::new());
        let choice = super::choose(
            "",
            |_| true,
            |path| {
                checked.borrow_mut().push(path);
                path < CpuPath::Amx
            },
        );
        assert_eq!((choice.path, checked.into_inner()), (CpuPath::Avx512Bf16, vec![CpuPath::Amx, CpuPath::Avx512Bf16]));
    }
}
