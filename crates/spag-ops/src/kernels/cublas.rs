//! Matrix products with cuBLASLt.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::cublaslt::{result, sys};
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use candle_core::{DType, Error, Result, bail};

use super::gemm::{Accumulate, Gemm, Orientation, SumOrder};

/// Workspace size recommended by NVIDIA for Hopper GPUs; older ones need 4 MiB.
const WORKSPACE_BYTES: usize = 32 << 20;

/// The cuBLASLt handle of a device, with its own workspace. One suffices: products on one stream are ordered.
pub(super) struct Cublas {
    handle: sys::cublasLtHandle_t,
    stream: Arc<CudaStream>,
    workspace: CudaSlice<u8>,
    /// Algorithms selected by the heuristic, cached because selection takes longer than a launch.
    chosen: Mutex<HashMap<Problem, sys::cublasLtMatmulAlgo_t>>,
}

// SAFETY: a handle may be used by several threads concurrently; it is destroyed only with its owner.
unsafe impl Send for Cublas {}
// SAFETY: as above.
unsafe impl Sync for Cublas {}

/// Addresses of the operands and the output of a product.
pub(super) struct Addresses {
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) c: u64,
}

/// The key for algorithm selection, in cuBLAS's column-major view, where a row-major matrix is its transpose, and cᵀ = bᵀ·aᵀ.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Problem {
    /// Rows and columns of the output, and the reduction extent.
    extents: [usize; 3],
    /// bᵀ and aᵀ are stored transposed.
    transposed: [bool; 2],
    /// Formats of the operands and of the output.
    formats: [DType; 2],
    order: SumOrder,
    /// Alignments in bytes of the operands and the output, if below 16, which suffices for all algorithms.
    alignments: [u32; 3],
}

impl Problem {
    fn of(gemm: &Gemm<'_>, at: &Addresses) -> Result<Self> {
        let (m, k, n) = gemm.extents()?;
        let transposed = [gemm.b.orientation, gemm.a.orientation].map(|side| side == Orientation::Transposed);
        let formats = [gemm.a.tensor.dtype(), gemm.c.dtype()];
        let alignments = [at.b, at.a, at.c].map(|address| 1 << address.trailing_zeros().min(4));
        Ok(Self { extents: [n, m, k], transposed, formats, order: gemm.order, alignments })
    }

    /// Rounds the number of tokens up, so that similar products share an algorithm. That extent is not the length of a row, so
    /// it does not affect which algorithms are usable.
    fn rounded(mut self) -> Self {
        let tokens = &mut self.extents[if self.is_of_weights() { 2 } else { 1 }];
        // Below 32 rows, some algorithms round a product before adding it to the output (seen on an H100).
        let least = if self.order == SumOrder::Fixed { 32 } else { 1 };
        *tokens = match (*tokens).max(least) {
            few @ 0..=64 => few.next_power_of_two(),
            some @ 65..=1024 => some.next_multiple_of(64),
            many => many.next_multiple_of(512),
        };
        self
    }

    /// Whether it is dyᵀ·x, a sum over tokens.
    fn is_of_weights(&self) -> bool {
        self.transposed == [false, true]
    }
}

/// Descriptors of one product, destroyed on drop.
struct Descriptors {
    product: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: created by `new` and destroyed once. A failure leaks a few bytes of host memory.
        unsafe {
            let _ = result::destroy_matmul_desc(self.product);
            for layout in self.layouts {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}

fn format(dtype: DType) -> Result<sys::cudaDataType> {
    match dtype {
        DType::F32 => Ok(sys::cudaDataType::CUDA_R_32F),
        DType::BF16 => Ok(sys::cudaDataType::CUDA_R_16BF),
        other => bail!("products are of f32 or bf16, not of {other:?}"),
    }
}

impl Descriptors {
    fn new(problem: &Problem) -> Result<Self> {
        let [m, n, k] = problem.extents;
        let [operand, output] = problem.formats;
        let layout = |dtype, transposed: bool, rows: usize, columns: usize| {
            let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
            result::create_matrix_layout(format(dtype)?, rows as u64, columns as u64, rows as i64).map_err(Error::wrap)
        };
        let layouts = [
            layout(operand, problem.transposed[0], m, k)?,
            layout(operand, problem.transposed[1], k, n)?,
            layout(output, false, m, n)?,
        ];
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let product = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F).map_err(Error::wrap)?;
        let descriptors = Self { product, layouts };
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let sides = [Attribute::CUBLASLT_MATMUL_DESC_TRANSA, Attribute::CUBLASLT_MATMUL_DESC_TRANSB];
        for (attribute, transposed) in sides.into_iter().zip(problem.transposed) {
            let operation = i32::from(transposed);
            // SAFETY: the descriptor is alive, and the attribute a number of 32 bits that is read during the call.
            unsafe { result::set_matmul_desc_attribute(product, attribute, (&raw const operation).cast(), 4) }
                .map_err(Error::wrap)?;
        }
        Ok(descriptors)
    }
}

impl Cublas {
    /// # Errors
    /// Out of memory, or an error of cuBLAS.
    pub(super) fn of(stream: &Arc<CudaStream>) -> Result<Self> {
        // SAFETY: cuBLAS writes to the workspace before it reads it.
        let workspace = unsafe { stream.alloc::<u8>(WORKSPACE_BYTES) }.map_err(Error::wrap)?;
        let handle = result::create_handle().map_err(Error::wrap)?;
        Ok(Self { handle, stream: stream.clone(), workspace, chosen: Mutex::default() })
    }

    /// Selects the algorithm for a problem.
    fn choose(&self, problem: &Problem, descriptors: &Descriptors) -> Result<sys::cublasLtMatmulAlgo_t> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        use sys::cublasLtReductionScheme_t as Scheme;
        // Without a reduction, every algorithm sums in the order of k (measured on an H100). Partial sums are never rounded to bf16
        // before they are added, and never added in order of arrival.
        let schemes = match problem.order {
            SumOrder::Fixed => Scheme::CUBLASLT_REDUCTION_SCHEME_NONE as u32,
            SumOrder::Any => {
                Scheme::CUBLASLT_REDUCTION_SCHEME_NONE as u32 | Scheme::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32
            }
        };
        let preference = result::create_matmul_pref().map_err(Error::wrap)?;
        let workspace = (WORKSPACE_BYTES as u64).to_ne_bytes();
        let mut settings = vec![
            (Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace.to_vec()),
            (Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes.to_ne_bytes().to_vec()),
        ];
        let [of_a, of_b, of_c] = problem.alignments;
        let sides = [
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_a),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_b),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_c),
        ];
        let few = sides.into_iter().filter(|(_, bytes)| *bytes < 16);
        settings.extend(few.map(|(attribute, bytes)| (attribute, bytes.to_ne_bytes().to_vec())));
        let set = settings.into_iter().try_for_each(|(attribute, value)| {
            // SAFETY: the preference is alive; an attribute has that many bytes, which are read during the call.
            unsafe { result::set_matmul_pref_attribute(preference, attribute, value.as_ptr().cast(), value.len()) }
        });
        let [a, b, c] = descriptors.layouts;
        // SAFETY: all objects are alive.
        let chosen = set.and_then(|()| unsafe {
            result::get_matmul_algo_heuristic(self.handle, descriptors.product, a, b, c, c, preference)
        });
        // SAFETY: created above, and destroyed once.
        unsafe { result::destroy_matmul_pref(preference) }.map_err(Error::wrap)?;
        Ok(chosen.map_err(Error::wrap)?.algo)
    }

    /// Launches a product whose tensors are on the device at these addresses; the context is bound to this thread.
    pub(super) fn gemm(&self, gemm: &Gemm<'_>, at: &Addresses) -> Result<()> {
        let failed = |e: Error| Error::Msg(format!("cuBLAS {gemm}: {e}"));
        let exact = Problem::of(gemm, at)?;
        let descriptors = Descriptors::new(&exact).map_err(failed)?;
        let rounded = exact.rounded();
        let choose = |problem: &Problem| {
            let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(algorithm) = chosen.get(problem) {
                return Ok(*algorithm);
            }
            let algorithm = self.choose(problem, &Descriptors::new(problem)?)?;
            chosen.insert(*problem, algorithm);
            Ok(algorithm)
        };
        let run = |algorithm: &sys::cublasLtMatmulAlgo_t| {
            let (alpha, beta) = (1f32, if gemm.accumulate == Accumulate::Yes { 1f32 } else { 0f32 });
            let [a, b, c] = descriptors.layouts;
            let workspace = self.workspace.device_ptr(&self.stream).0;
            // SAFETY: the extents have been checked against the tensors, which are at these addresses; the workspace has as many
            // bytes and lives as long as the handle.
            unsafe {
                result::matmul(
                    self.handle,
                    descriptors.product,
                    (&raw const alpha).cast(),
                    (&raw const beta).cast(),
                    at.b as *const c_void,
                    a,
                    at.a as *const c_void,
                    b,
                    at.c as *const c_void,
                    c,
                    at.c as *mut c_void,
                    c,
                    algorithm,
                    workspace as *mut c_void,
                    WORKSPACE_BYTES,
                    self.stream.cu_stream().cast(),
                )
            }
        };
        match run(&choose(&rounded).map_err(failed)?) {
            Err(result::CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED)) if rounded != exact => {
                run(&choose(&exact).map_err(failed)?)
            }
            done => done,
        }
        .map_err(|e| failed(Error::wrap(e)))
    }
}
