//! Programs of a CUDA build against the stand-in for NVIDIA's libraries: `scripts/stand-in.sh check` sets `SPAG_PROGRAMS` and
//! `LD_LIBRARY_PATH` for these tests. The model is small, since the stand-in computes hundreds of tokens per second.

mod games;
mod model;
mod ranks;
mod simulated;
mod training;
