//! Parameters in flat buffers, one per layer, addressed by named views.
//!
//! A layer (the embedding, each block, the head) is the unit of an optimizer update, of recomputation, sharding and
//! offload. Gradients and optimizer state use the same layout.

mod source;

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use crate::checkpoint::WeightDtype;
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::memory;
use crate::ops::{cast, cpu};

pub use source::{GradientSink, WeightSource};

/// A tensor inside a layer's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Hugging Face name, e.g. `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// Index of the first element in the layer's buffer.
    pub offset: usize,
}

impl View {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The views of one layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerLayout {
    /// The views, ordered by offset.
    pub views: Vec<View>,
    /// Length of the buffer in elements.
    pub len: usize,
}

impl LayerLayout {
    fn push(&mut self, name: String, shape: Vec<usize>) {
        let offset = self.len;
        self.len += shape.iter().product::<usize>();
        self.views.push(View { name, shape, offset });
    }
}

/// The layers of a model: the embedding, the blocks, and the final norm with the output head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// All layers, in forward order.
    pub layers: Vec<LayerLayout>,
}

/// Names of a block's views, in order.
pub(crate) const BLOCK_VIEWS: [&str; 9] = [
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
];

impl Layout {
    /// The layout of a configuration. With tied embeddings the head layer holds only the final norm.
    pub fn new(config: &ModelConfig) -> Self {
        let (d, f, v, kv) = (config.hidden_size, config.intermediate_size, config.vocab_size, config.kv_size());
        let mut embedding = LayerLayout::default();
        embedding.push("model.embed_tokens.weight".into(), vec![v, d]);
        let mut layers = vec![embedding];
        for block in 0..config.num_hidden_layers {
            let mut layer = LayerLayout::default();
            let shapes = [
                vec![d],
                vec![d, d],
                vec![kv, d],
                vec![kv, d],
                vec![d, d],
                vec![d],
                vec![f, d],
                vec![f, d],
                vec![d, f],
            ];
            for (part, shape) in BLOCK_VIEWS.iter().zip(shapes) {
                layer.push(format!("model.layers.{block}.{part}.weight"), shape);
            }
            layers.push(layer);
        }
        let mut head = LayerLayout::default();
        head.push("model.norm.weight".into(), vec![d]);
        if !config.tie_word_embeddings {
            head.push("lm_head.weight".into(), vec![v, d]);
        }
        layers.push(head);
        Self { layers }
    }

    /// A view of a layer's buffer. It shares the buffer's memory.
    ///
    /// # Errors
    /// A layer or view outside the layout, or a buffer that is too short.
    pub fn view(&self, buffer: &Tensor, layer: usize, view: usize) -> Result<Tensor> {
        match self.layers.get(layer).and_then(|layer| layer.views.get(view)) {
            Some(at) => Ok(buffer.narrow(0, at.offset, at.len())?.reshape(at.shape.as_slice())?),
            None => Err(Error::Config(format!("no view {view} in layer {layer}"))),
        }
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.layers.iter().map(|l| l.len).sum()
    }

    /// Whether the model has no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One flat buffer per layer of a [`Layout`]: parameters (f32 or bf16), gradients (f32) or an optimizer moment (f32).
#[derive(Clone, Debug)]
pub struct FlatBuffers {
    layout: Layout,
    layers: Vec<Tensor>,
}

impl FlatBuffers {
    /// Zero-filled f32 buffers.
    pub fn zeros(layout: &Layout, device: &Device) -> Result<Self> {
        Self::zeros_of(layout, WeightDtype::F32, device)
    }

    /// Zero-filled buffers in a given number format.
    pub fn zeros_of(layout: &Layout, dtype: WeightDtype, device: &Device) -> Result<Self> {
        Self::padded(layout, dtype, device, 1)
    }

    /// As [`FlatBuffers::zeros_of`], with each buffer padded to a multiple of `multiple` elements.
    ///
    /// # Errors
    /// Too little memory.
    pub fn padded(layout: &Layout, dtype: WeightDtype, device: &Device, multiple: usize) -> Result<Self> {
        if device.is_cpu() {
            let bytes = memory::weight_bytes(layout, dtype);
            let what = || format!("{} parameters, or as many gradients, in {dtype},", layout.len());
            memory::require_room(bytes, device, what, "choose a smaller model")?;
        }
        let buffer = |l: &LayerLayout| Tensor::zeros(l.len.next_multiple_of(multiple.max(1)), dtype.into(), device);
        let layers = layout.layers.iter().map(buffer).collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: layout.clone(), layers })
    }

    /// Copies the buffers to another device, one layer at a time. On the same device the memory is shared.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let layers = self.layers.iter().map(|l| l.to_device(device)).collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: self.layout.clone(), layers })
    }

    /// Converts to another number format. If the format is the same, the memory is shared.
    pub fn to_dtype(&self, dtype: WeightDtype) -> Result<Self> {
        let convert = |layer: &Tensor| match (layer.dtype() == dtype.into(), dtype) {
            (true, _) => Ok(layer.clone()),
            (false, WeightDtype::F32) => cast::widened(layer),
            (false, WeightDtype::Bf16) => {
                let narrow = Tensor::zeros(layer.dims(), DType::BF16, layer.device())?;
                cast::round_into(layer, &narrow)?;
                Ok(narrow)
            }
        };
        let layers = self.layers.iter().map(convert).collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: self.layout.clone(), layers })
    }

    /// Number format of the elements.
    pub fn dtype(&self) -> WeightDtype {
        match self.layers.first().map(Tensor::dtype) {
            Some(DType::BF16) => WeightDtype::Bf16,
            _ => WeightDtype::F32,
        }
    }

    /// The device of the buffers.
    pub fn device(&self) -> &Device {
        self.layers.first().map_or(&Device::Cpu, Tensor::device)
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The buffers, one per layer, each `[elements]` plus padding.
    pub fn layers(&self) -> &[Tensor] {
        &self.layers
    }

    /// A view of one tensor. It shares the buffer's memory.
    ///
    /// # Errors
    /// A layer or view outside the layout.
    pub fn view(&self, layer: usize, view: usize) -> Result<Tensor> {
        match self.layers.get(layer) {
            Some(buffer) => self.layout.view(buffer, layer, view),
            None => Err(Error::Config(format!("no view {view} in layer {layer}"))),
        }
    }

    /// Copies `values` into a view. They may be on any device.
    ///
    /// # Errors
    /// A layer or view outside the layout, a wrong number of elements, or a wrong number format.
    pub fn set_view(&self, layer: usize, view: usize, values: &Tensor) -> Result<()> {
        let expected = self.view(layer, view)?.elem_count();
        if values.elem_count() != expected {
            let found = values.elem_count();
            return Err(Error::Config(format!("{found} values for view {view} in layer {layer} of {expected}")));
        }
        let offset = self.layout.layers[layer].views[view].offset;
        let values = values.to_device(self.device())?.contiguous()?.flatten_all()?;
        Ok(self.layers[layer].slice_set(&values, 0, offset)?)
    }

    /// Consecutive matrices of one layer, stacked into one matrix that shares the buffer's memory.
    ///
    /// # Errors
    /// A layer or views outside the layout, or matrices of different widths.
    pub(crate) fn stacked(&self, layer: usize, views: std::ops::Range<usize>) -> Result<Tensor> {
        let all = self.layout.layers.get(layer).and_then(|l| l.views.get(views.clone())).unwrap_or_default();
        let width = |view: &View| view.shape.get(1).copied().unwrap_or(0);
        match all.first() {
            Some(first) if all.iter().all(|view| view.shape.len() == 2 && width(view) == width(first)) => {
                let count = all.iter().map(View::len).sum::<usize>();
                let rows = self.layers[layer].narrow(0, first.offset, count)?;
                Ok(rows.reshape((count / width(first).max(1), width(first)))?)
            }
            _ => Err(Error::Config(format!("views {views:?} of layer {layer} are not matrices of one width"))),
        }
    }

    /// All views with their Hugging Face names, in forward order.
    pub fn named(&self) -> Result<Vec<(String, Tensor)>> {
        let mut all = Vec::new();
        for (l, layer) in self.layout.layers.iter().enumerate() {
            for (v, view) in layer.views.iter().enumerate() {
                all.push((view.name.clone(), self.view(l, v)?));
            }
        }
        Ok(all)
    }

    /// Fills all buffers with zeros.
    pub fn set_zero(&self) -> Result<()> {
        for layer in &self.layers {
            if layer.device().is_cpu() && layer.dtype() == DType::F32 {
                // On all threads: a single thread would take as long as an op for a large buffer.
                cpu::update(layer, |values| {
                    values.par_chunks_mut(1 << 16).for_each(|part| part.fill(0.0));
                    Ok(())
                })?;
            } else {
                layer.zero_set()?;
            }
        }
        Ok(())
    }

    /// A copy that does not share memory.
    pub fn deep_copy(&self) -> Result<Self> {
        let layers = self.layers.iter().map(Tensor::copy).collect::<candle_core::Result<_>>()?;
        Ok(Self { layout: self.layout.clone(), layers })
    }
}
