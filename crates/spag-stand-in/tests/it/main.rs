//! The stand-in answers as a driver does, and ends programs that would be wrong on a device.

mod child;
mod collectives;
mod driver;
mod errors;
mod faults;
mod work;
