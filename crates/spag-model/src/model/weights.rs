//! The tensors of a block: weights, and gradient accumulators.

use candle_core::{DType, Device, Result, Tensor};

use super::linear::{Linear, LinearGradient, LinearWeight, WeightGradient};
use crate::error::Error;
use crate::params::{AdapterPlaces, BlockNorms, Layout, Part, Update};
use spag_ops::accumulate::set_zero;
use spag_ops::cast::{in_compute_dtype, narrowed};
use spag_ops::kernels::{self, Accumulate};
use spag_ops::rms_norm::RmsNorm;

/// The tensors of a block, with an `L` for each linear layer.
pub(super) struct BlockParts<L> {
    pub(super) norms: BlockNorms,
    /// Queries, keys and values: three layers, or one [fused](Products).
    pub(super) qkv: Vec<L>,
    /// For queries and for keys.
    pub(super) head_norms: Option<(Tensor, Tensor)>,
    pub(super) o: L,
    /// Gate and up: two layers, or one fused.
    pub(super) gate_up: Vec<L>,
    pub(super) down: L,
}

/// The products of layers with the same input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Products {
    /// One fused product with the stacked weights, which are contiguous: on a device, small models are bound by the number of
    /// launches.
    Joined,
    /// One product per layer: on a CPU, and with adapters.
    Apart,
}

impl Products {
    /// The default for a device, without an adapter.
    fn on(device: &Device) -> Result<Self> {
        Ok(if kernels::of(device)?.is_some() { Self::Joined } else { Self::Apart })
    }
}

/// The weights of a block.
pub(super) type BlockWeights = BlockParts<Linear>;

/// Gradient accumulators of a block's weights, f32.
pub(super) type BlockGradients = BlockParts<LinearGradient>;

impl<L> BlockParts<L> {
    /// `norm` looks up a norm if the block has it; `linear` a linear layer by the consecutive parts of its weight and of its
    /// bias.
    fn collect(
        products: Products,
        norm: impl Fn(Part) -> crate::Result<Option<Tensor>>,
        linear: impl Fn(&[Part], &[Part]) -> crate::Result<L>,
    ) -> crate::Result<Self> {
        let layers = |weights: &[Part], biases: &[Part]| match products {
            Products::Joined => Ok(vec![linear(weights, biases)?]),
            Products::Apart => weights.chunks(1).zip(biases.chunks(1)).map(|(w, b)| linear(w, b)).collect(),
        };
        Ok(Self {
            norms: BlockNorms::of(&norm)?,
            qkv: layers(&[Part::Query, Part::Key, Part::Value], &[Part::QueryBias, Part::KeyBias, Part::ValueBias])?,
            head_norms: norm(Part::QueryNorm)?.zip(norm(Part::KeyNorm)?),
            o: linear(&[Part::Output], &[Part::OutputBias])?,
            gate_up: layers(&[Part::Gate, Part::Up], &[Part::GateBias, Part::UpBias])?,
            down: linear(&[Part::Down], &[Part::DownBias])?,
        })
    }
}

impl BlockWeights {
    /// `x` [N, D] normalised before attention or MLP, in the format of the products that read it.
    pub(super) fn normed(&self, part: Part, x: &Tensor, norm: RmsNorm) -> Result<Tensor> {
        self.o.weight.normed(x, self.norms.get(part)?, norm)
    }

    /// Activations in the number format of the weights, in which they are saved. On a CPU they are computed in f32.
    pub(super) fn stored(&self, activations: Tensor) -> Result<Tensor> {
        match (activations.dtype(), self.o.weight.saved_dtype()) {
            (DType::F32, DType::BF16) => narrowed(activations),
            _ => Ok(activations),
        }
    }

    /// Views of a layer's buffer, and of the adapter's. On a CPU, bf16 norms and biases are converted to f32.
    pub(super) fn of(
        buffer: &Tensor,
        layout: &Layout,
        adapter: Option<(&Tensor, &AdapterPlaces)>,
        layer: usize,
    ) -> crate::Result<Self> {
        let parts = |parts: &[Part]| match layout.joined(buffer, layer, parts)? {
            Some(tensor) => Ok::<_, Error>(Some(in_compute_dtype(&tensor)?)),
            None => Ok(None),
        };
        let products = if adapter.is_some() { Products::Apart } else { Products::on(buffer.device())? };
        let linear = |weight: &[Part], bias: &[Part]| {
            let dense = layout.required(buffer, layer, weight)?;
            let pair = adapter.map(|(buffer, places)| places.pair(buffer, layer, weight[0])).transpose()?.flatten();
            let weight = match pair {
                Some(pair) => LinearWeight::Adapted(dense, pair),
                None => LinearWeight::Dense(dense),
            };
            Ok::<_, Error>(Linear { weight, bias: parts(bias)? })
        };
        Self::collect(products, |norm| parts(&[norm]), linear)
    }
}

impl BlockGradients {
    /// Views of a layer's gradients. Frozen weights and biases have none. The gradients of frozen norms, by-products of the
    /// gradients of their inputs, are accumulated in temporary memory. If the buffer holds nothing to add to, the products write
    /// their matrices, and everything else is set to zero.
    pub(super) fn of(buffer: &Tensor, accumulate: Accumulate, layout: &Layout, layer: usize) -> crate::Result<Self> {
        if accumulate == Accumulate::No {
            for rest in layout.outside_trained_matrices(layer, buffer.elem_count()) {
                set_zero(&buffer.narrow(0, rest.start, rest.len())?)?;
            }
        }
        let trained = |parts: &[Part]| {
            let update = layout.update(layer, parts[0]);
            if parts.iter().any(|part| layout.update(layer, *part) != update) {
                return Err(Error::Config(format!("on this device {parts:?} are trained or frozen together")));
            }
            if update == Some(Update::Trained) { layout.joined(buffer, layer, parts) } else { Ok(None) }
        };
        let norm = |part: Part| match (trained(&[part])?, layout.part(buffer, layer, part)?) {
            (None, Some(frozen)) => Ok::<_, Error>(Some(frozen.zeros_like()?)),
            (trained, _) => Ok(trained),
        };
        let linear = |weight: &[Part], bias: &[Part]| {
            let weight = trained(weight)?;
            let weight = weight.map_or(WeightGradient::Frozen, |weight| WeightGradient::Dense(weight, accumulate));
            Ok::<_, Error>(LinearGradient { weight, bias: trained(bias)? })
        };
        Self::collect(Products::on(buffer.device())?, norm, linear)
    }

    /// The gradients of an adapter's layer over `weights`. Gradients of norms, also by-products, are dropped.
    pub(super) fn of_adapter(
        buffer: &Tensor,
        accumulate: Accumulate,
        places: &AdapterPlaces,
        weights: &BlockWeights,
        layer: usize,
    ) -> crate::Result<Self> {
        if accumulate == Accumulate::No {
            set_zero(buffer)?;
        }
        let dropped = |norm: &Tensor| Tensor::zeros(norm.shape(), DType::F32, norm.device());
        let linear = |weight: &[Part], _: &[Part]| {
            let pair = places.pair(buffer, layer, weight[0])?;
            let weight = pair.map_or(WeightGradient::Frozen, WeightGradient::Adapter);
            Ok::<_, Error>(LinearGradient { weight, bias: None })
        };
        let heads = weights.head_norms.as_ref().map(|(q, k)| Ok::<_, Error>((dropped(q)?, dropped(k)?))).transpose()?;
        let parts = Self::collect(Products::Apart, |_| Ok(None), linear)?;
        Ok(Self { norms: weights.norms.map(dropped)?, head_norms: heads, ..parts })
    }
}
