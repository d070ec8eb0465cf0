//! Where packed matrices are.

use candle_core::{Device, Result, Tensor};

use spag_ops::kernels;
use spag_ops::packed_linear::PackedWeight;
use spag_ops::quantised::BlockFormat;

/// Where packed weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedMemory {
    /// In the memory of the weights, which become empty.
    OfWeights,
    /// In memory of their own.
    Own,
    /// Quantised in memory of their own, if 32 divides their inputs.
    Quantised(BlockFormat),
}

/// Packs matrices for generation on `device`: in their own memory, unless they are quantised.
pub(super) fn packed(weights: &[Tensor], memory: PackedMemory, device: &Device) -> Result<Vec<PackedWeight>> {
    match memory {
        PackedMemory::OfWeights => PackedWeight::in_place(weights),
        PackedMemory::Own => weights.iter().map(PackedWeight::new).collect(),
        PackedMemory::Quantised(format) => weights.iter().map(|weight| quantised(weight, format, device)).collect(),
    }
}

/// Packs a matrix for `device`, quantised to the format or the one [in its place](BlockFormat::of_inputs), or as it is if 32 does not
/// divide its inputs. It does not share the memory of the matrix.
pub(super) fn quantised(weight: &Tensor, format: BlockFormat, device: &Device) -> Result<PackedWeight> {
    match (format.of_inputs(weight.dim(1)?), kernels::of(device)?) {
        (Some(format), _) => PackedWeight::quantised(weight, format, device),
        (None, None) => PackedWeight::new(weight),
        (None, Some(_)) => PackedWeight::new(&copied_to(weight, device)?),
    }
}

/// A copy of a view on a device. [`Tensor::to_device`] would copy all of the view's memory.
pub(super) fn copied_to(view: &Tensor, device: &Device) -> Result<Tensor> {
    view.force_contiguous()?.to_device(device)
}
