//! Benchmarks of a GPU in a build with the feature `cuda`: its ceilings, and each kernel at the sizes of LLaMA-2-7B in bf16.
//!
//! A row is a kernel, the median of its times, its rate, and its share of the measured ceiling: of a copy's bytes, or of the
//! operations of a large product by cuBLAS. Other builds measure nothing.

mod ceilings;
mod ops;
mod timed;

use spag_ops::{DeviceChoice, kernels};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if !kernels::HAVE_CUDA {
        println!("this build has no kernels for GPUs: build it with --features cuda (docs/CUDA.md)");
        return Ok(());
    }
    let open = DeviceChoice::Cuda(Some(0)).open(0)?;
    let ceilings = ceilings::measure(open.device())?;
    println!("{open}");
    println!("copy within the memory, bytes read and written: {:.0} GB/s", ceilings.copy_gb_per_s);
    println!("bf16 product of 8192×8192 by 8192×8192: {:.0} TFLOP/s", ceilings.matmul_tflops);
    Ok(ops::measure(open.device(), &ceilings)?)
}
