//! Kernels by name, and their launch limits.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::candle;
use crate::fault::fault;
use crate::machine::{Machine, Settings};
use crate::order::Use;
use crate::result::Error;
use crate::work::{Access, Run, Work};

/// Default maximum of shared memory per block.
const PLAIN_SHARED_BYTES: usize = 48 << 10;
const MOST_THREADS: u32 = 1024;
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

// Linked through spag-emulator.
use spag_emulator as _;
unsafe extern "C" {
    fn emulator_parameters(name: *const c_char) -> *const c_char;
    fn emulator_launch_in_place(
        name: *const c_char,
        grid: *const u32,
        block: *const u32,
        shared_bytes: usize,
        values: *const *mut c_void,
        schedule: u32,
        error: *mut c_char,
        error_bytes: usize,
    ) -> c_int;
}

/// A kernel.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    name: String,
    kind: Kind,
    /// Requested maximum of shared memory per block.
    pub(crate) shared_bytes: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A kernel of this repository, with a letter for each parameter (`emulator.h`).
    Emulated(String),
    /// A kernel of candle.
    Candle(candle::Kernel),
}

/// The grid, blocks and shared memory of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: usize,
}

/// Launch parameters: pointers to their values.
#[derive(Clone, Copy)]
pub(crate) struct Parameters(pub(crate) *const *const c_void);

impl Parameters {
    fn value<T: Copy>(self, index: usize) -> T {
        // SAFETY: the launch's caller passes a pointer for every parameter of the kernel, whose number and types are known.
        unsafe { (*self.0.add(index)).cast::<T>().read_unaligned() }
    }

    /// An 8-byte parameter, such as a device address.
    pub(crate) fn u64(self, index: usize) -> u64 {
        self.value(index)
    }

    pub(crate) fn u32(self, index: usize) -> u32 {
        self.value(index)
    }

    pub(crate) fn bytes<const N: usize>(self, index: usize) -> [u8; N] {
        self.value(index)
    }
}

impl Function {
    pub(crate) fn find(name: &str) -> Option<Self> {
        let own = CString::new(name).ok()?;
        // SAFETY: the name is zero-terminated; the returned string lives as long as the process.
        let letters = unsafe {
            let letters = emulator_parameters(own.as_ptr());
            (!letters.is_null()).then(|| CStr::from_ptr(letters).to_string_lossy().into_owned())
        };
        let kind = match letters {
            Some(letters) => Kind::Emulated(letters),
            None => Kind::Candle(candle::Kernel::find(name)?),
        };
        Some(Self { name: name.to_owned(), kind, shared_bytes: PLAIN_SHARED_BYTES })
    }

    /// Sets the maximum of shared memory.
    pub(crate) fn ask_for(&mut self, bytes: i32, settings: &Settings) -> Result<(), Error> {
        let bytes = usize::try_from(bytes).map_err(|_| Error::InvalidValue)?;
        if bytes > settings.shared_bytes() {
            return Err(Error::InvalidValue);
        }
        self.shared_bytes = bytes.max(PLAIN_SHARED_BYTES);
        Ok(())
    }

    /// The work of a launch.
    pub(crate) fn work(&self, machine: &Machine, shape: Shape, parameters: Parameters) -> Result<Work, Error> {
        let Shape { grid, block, shared_bytes } = shape;
        let threads = block.iter().try_fold(1u32, |all, each| all.checked_mul(*each)).unwrap_or(0);
        let grid_fits = grid.iter().zip(MOST_BLOCKS).all(|(blocks, most)| (1..=most).contains(blocks));
        if !grid_fits || !(1..=MOST_THREADS).contains(&threads) || shared_bytes > self.shared_bytes {
            eprintln!("stand-in: {} is launched with {shape:?}", self.name);
            return Err(Error::InvalidValue);
        }
        let what = self.name.clone();
        match &self.kind {
            Kind::Emulated(letters) => {
                let (values, accesses) = arguments(machine, &what, letters, parameters);
                Ok(Work { run: emulated(&what, shape, values), what, accesses })
            }
            Kind::Candle(kernel) => {
                let (run, accesses) = kernel.work(machine, parameters);
                Ok(Work { what, accesses, run })
            }
        }
    }
}

/// Parameter values of an emulated kernel, with host addresses, and the memory that it uses.
fn arguments(machine: &Machine, what: &str, letters: &str, parameters: Parameters) -> (Vec<u64>, Vec<Access>) {
    let mut accesses = Vec::new();
    let values = letters.chars().enumerate().map(|(i, letter)| match letter {
        '4' | '.' => u64::from(parameters.u32(i)),
        '8' => parameters.u64(i),
        'a'..='z' | 'A'..='Z' => match parameters.u64(i) {
            0 => 0,
            address => {
                let region = machine.memory.region(address, None, what);
                let at = region.at() as u64;
                let how = if letter.is_ascii_uppercase() { Use::Write } else { Use::Read };
                accesses.push(Access { region, how });
                at
            }
        },
        _ => fault!("{what} has a parameter of an unknown type, {letter:?}"),
    });
    (values.collect(), accesses)
}

/// Runs a kernel in the emulator, each time with another thread order.
fn emulated(name: &str, shape: Shape, values: Vec<u64>) -> Run {
    static LAUNCHES: AtomicU32 = AtomicU32::new(0);
    let name = CString::new(name).unwrap_or_default();
    Arc::new(move || {
        let mut values = values.clone();
        let pointers: Vec<*mut c_void> = values.iter_mut().map(|value| (value as *mut u64).cast()).collect();
        let schedule = LAUNCHES.fetch_add(1, Ordering::Relaxed) % 8;
        let mut error = [0u8; 512];
        // SAFETY: there is a value for each parameter; the work's accesses keep the memory behind addresses, which is
        // surrounded by guard pages.
        let failed = unsafe {
            emulator_launch_in_place(
                name.as_ptr(),
                shape.grid.as_ptr(),
                shape.block.as_ptr(),
                shape.shared_bytes,
                pointers.as_ptr(),
                schedule,
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        if failed == 0 {
            return Ok(());
        }
        Err(CStr::from_bytes_until_nul(&error).map(CStr::to_string_lossy).unwrap_or_default().into_owned())
    })
}
