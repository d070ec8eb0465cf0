//! Memory of packed matrices.

use candle_core::{Device, Result, Tensor};

use spag_ops::kernels;
use spag_ops::packed_linear::PackedWeight;
use spag_ops::quantised::BlockFormat;

/// The memory of packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedMemory {
    /// That of the weights, which become empty.
    OfWeights,
    /// New memory.
    Own,
    /// New memory, quantised if 32 divides the input size.
    Quantised(BlockFormat),
}

/// Packs matrices for generation on `device`, in place unless they are quantised.
pub(super) fn packed(weights: &[Tensor], memory: PackedMemory, device: &Device) -> Result<Vec<PackedWeight>> {
    match memory {
        PackedMemory::OfWeights => PackedWeight::in_place(weights),
        PackedMemory::Own => weights.iter().map(PackedWeight::new).collect(),
        PackedMemory::Quantised(format) => weights.iter().map(|weight| quantised(weight, format, device)).collect(),
    }
}

/// Packs a matrix for `device`, quantised to the format or its [fallback](BlockFormat::of_inputs), or unquantised if 32 does not
/// divide its input size. The result does not share the matrix's memory.
pub(super) fn quantised(weight: &Tensor, format: BlockFormat, device: &Device) -> Result<PackedWeight> {
    match (format.of_inputs(weight.dim(1)?), kernels::of(device)?) {
        (Some(format), _) => PackedWeight::quantised(weight, format, device),
        (None, None) => PackedWeight::new(weight),
        (None, Some(_)) => PackedWeight::new(&copied_to(weight, device)?),
    }
}

/// A copy of a view on a device. [`Tensor::to_device`] would copy the view's whole memory.
pub(super) fn copied_to(view: &Tensor, device: &Device) -> Result<Tensor> {
    view.force_contiguous()?.to_device(device)
}
