//! The C interface, by library.

pub mod context;
pub mod copy;
pub mod cublas;
pub mod cublas_lt;
pub mod event;
pub mod graph;
pub mod memory;
pub mod module;
pub mod nccl;
pub mod others;
pub mod stream;
