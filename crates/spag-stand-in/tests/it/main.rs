//! The stand-in returns the driver's results, and ends programs that would fail silently on a device.

mod child;
mod collectives;
mod driver;
mod errors;
mod faults;
mod work;
