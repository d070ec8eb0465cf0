//! Captured operations that can be replayed like a CUDA graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use candle_core::{Result, Tensor};
use spag_ops::kernels::{Accumulate, Arg, CapturedGraph, Gemm, Launch, Module, Operand, Orientation, SumOrder};

use crate::{bytes, gemm, run};

/// A launch, a matrix product or a copy, with its tensors.
#[derive(Debug)]
pub(crate) enum GraphOp {
    Launch { module: Module, kernel: String, grid: [u32; 3], block: u32, shared_bytes: usize, args: Vec<Held> },
    Gemm { a: (Tensor, Orientation), b: (Tensor, Orientation), c: Tensor, accumulate: Accumulate, order: SumOrder },
    Copy(Tensor, Tensor),
}

/// An argument that owns its tensor.
#[derive(Debug)]
pub(crate) enum Held {
    In(Tensor),
    Out(Tensor),
    Value(Arg<'static>),
}

impl Held {
    fn of(arg: &Arg<'_>) -> Self {
        match *arg {
            Arg::In(tensor) => Self::In(tensor.clone()),
            Arg::Out(tensor) => Self::Out(tensor.clone()),
            Arg::Null => Self::Value(Arg::Null),
            Arg::U32(x) => Self::Value(Arg::U32(x)),
            Arg::U64(x) => Self::Value(Arg::U64(x)),
            Arg::F32(x) => Self::Value(Arg::F32(x)),
        }
    }

    fn arg(&self) -> Arg<'_> {
        match self {
            Self::In(tensor) => Arg::In(tensor),
            Self::Out(tensor) => Arg::Out(tensor),
            Self::Value(value) => *value,
        }
    }
}

impl GraphOp {
    pub(crate) fn launch(launch: &Launch<'_>) -> Self {
        Self::Launch {
            module: launch.module,
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            args: launch.args.iter().map(Held::of).collect(),
        }
    }

    /// The kernel's name, `gemm` or `copy`.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Launch { kernel, .. } => kernel,
            Self::Gemm { .. } => "gemm",
            Self::Copy(..) => "copy",
        }
    }

    pub(crate) fn gemm(gemm: &Gemm<'_>) -> Self {
        let side = |operand: &Operand<'_>| (operand.tensor.clone(), operand.orientation);
        Self::Gemm {
            a: side(&gemm.a),
            b: side(&gemm.b),
            c: gemm.c.clone(),
            accumulate: gemm.accumulate,
            order: gemm.order,
        }
    }
}

/// A captured graph: operations in order.
pub(crate) struct EmulatedGraph {
    all: Vec<GraphOp>,
    launches: Arc<AtomicU32>,
}

impl EmulatedGraph {
    pub(crate) fn new(all: Vec<GraphOp>, launches: Arc<AtomicU32>) -> Self {
        Self { all, launches }
    }
}

impl CapturedGraph for EmulatedGraph {
    fn replay(&self) -> Result<()> {
        for op in &self.all {
            match op {
                GraphOp::Launch { module, kernel, grid, block, shared_bytes, args } => {
                    let args: Vec<Arg<'_>> = args.iter().map(Held::arg).collect();
                    let launch = Launch {
                        module: *module,
                        kernel: kernel.clone(),
                        grid: *grid,
                        block: *block,
                        shared_bytes: *shared_bytes,
                        args: &args,
                    };
                    run(&launch, self.launches.fetch_add(1, Ordering::Relaxed))?;
                }
                GraphOp::Gemm { a, b, c, accumulate, order } => {
                    let side = |(tensor, orientation): &(Tensor, Orientation)| (tensor.clone(), *orientation);
                    let (a, b) = (side(a), side(b));
                    gemm::run(&Gemm {
                        a: Operand { tensor: &a.0, orientation: a.1 },
                        b: Operand { tensor: &b.0, orientation: b.1 },
                        c,
                        accumulate: *accumulate,
                        order: *order,
                    })?;
                }
                GraphOp::Copy(from, to) => bytes::write(to, &bytes::read(from)?)?,
            }
        }
        Ok(())
    }
}
