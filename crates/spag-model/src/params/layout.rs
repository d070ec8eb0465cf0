//! The position of each tensor in the flat buffers, and its name in a checkpoint.

use std::ops::Range;

use candle_core::Tensor;

use super::names::{self, Part};
use crate::config::Architecture;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};

/// Whether a tensor is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// It has a gradient.
    #[default]
    Trained,
    /// It is unchanged. Backward passes do not touch its gradient.
    Frozen,
}

/// A tensor of a checkpoint inside a layer's buffer: one part, or several with stacked rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The name in the checkpoint, e.g. `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// Index of the first element in the layer's buffer.
    pub offset: usize,
    /// The first of its parts.
    pub part: Part,
    /// Whether training changes it.
    pub update: Update,
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

/// The position of a part in a layer's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    part: Part,
    offset: usize,
    shape: Vec<usize>,
}

impl Place {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The tensors of one layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerLayout {
    /// The tensors of the checkpoint, ordered by offset.
    pub views: Vec<View>,
    /// Length of the buffer in elements.
    pub len: usize,
    parts: Vec<Place>,
}

impl LayerLayout {
    /// Adds a tensor of one part.
    fn push(&mut self, name: &str, part: Part, shape: &[usize]) {
        self.push_joined(name, &[(part, shape.to_vec())]);
    }

    /// Adds a tensor that stacks the rows of several parts of the same width.
    fn push_joined(&mut self, name: &str, parts: &[(Part, Vec<usize>)]) {
        let Some(((part, first), rest)) = parts.split_first() else { return };
        let mut shape = first.clone();
        shape[0] += rest.iter().map(|(_, shape)| shape[0]).sum::<usize>();
        self.views.push(View { name: name.to_owned(), shape, offset: self.len, part: *part, update: Update::Trained });
        for (part, shape) in parts {
            let place = Place { part: *part, offset: self.len, shape: shape.clone() };
            self.len += place.len();
            self.parts.push(place);
        }
    }

    /// The layer of block `index`.
    fn block(model: &Architecture, index: usize) -> Self {
        let mut layer = Self::default();
        let prefix = model.modalities.prefix();
        for (name, parts) in names::of_block(model) {
            layer.push_joined(&format!("{prefix}model.layers.{index}.{name}"), &parts);
        }
        layer
    }

    /// The parts of a tensor of the checkpoint, each with its rows.
    pub(crate) fn parts_of(&self, name: &str) -> Vec<(Part, Range<usize>)> {
        let Some(view) = self.views.iter().find(|view| view.name == name) else { return Vec::new() };
        let inside = self.parts.iter().filter(|place| (view.offset..view.offset + view.len()).contains(&place.offset));
        let columns = view.shape.get(1).copied().unwrap_or(1).max(1);
        inside
            .map(|place| {
                let first = (place.offset - view.offset) / columns;
                (place.part, first..first + place.shape[0])
            })
            .collect()
    }

    /// The shape of a part.
    pub(crate) fn shape(&self, part: Part) -> Option<&[usize]> {
        self.parts.iter().find(|place| place.part == part).map(|place| place.shape.as_slice())
    }

    /// Consecutive parts as one range: its offset, and the shape with all rows.
    fn joined(&self, parts: &[Part]) -> Option<(usize, Vec<usize>)> {
        let first = self.parts.iter().position(|place| Some(&place.part) == parts.first())?;
        let places = self.parts.get(first..first + parts.len())?;
        let (start, rest) = places.split_first()?;
        let fits = |(place, part): (&Place, &Part)| place.part == *part && place.shape[1..] == start.shape[1..];
        if !places.iter().zip(parts).all(fits) {
            return None;
        }
        let mut shape = start.shape.clone();
        shape[0] += rest.iter().map(|place| place.shape[0]).sum::<usize>();
        Some((start.offset, shape))
    }
}

/// The layers of a model: the embedding, the blocks, and the final norm with the output head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// All layers, in forward order.
    pub layers: Vec<LayerLayout>,
}

impl Layout {
    /// The layout of an architecture. With tied embeddings the head layer holds only the final norm.
    pub fn new(model: &Architecture) -> Self {
        let (d, v) = (model.hidden_size, model.vocab_size);
        let named = |name: &str| format!("{}{name}", model.modalities.prefix());
        let mut embedding = LayerLayout::default();
        embedding.push(&named(names::EMBEDDING), Part::Embedding, &[v, d]);
        let mut head = LayerLayout::default();
        head.push(&named(names::NORM), Part::FinalNorm, &[d]);
        if !model.is_tied() {
            head.push(&named(names::HEAD), Part::Head, &[v, d]);
        }
        let blocks = (0..model.num_hidden_layers).map(|index| LayerLayout::block(model, index));
        Self { layers: [embedding].into_iter().chain(blocks).chain([head]).collect() }
    }

    /// The prefix of the names of a model's tensors.
    pub(crate) fn prefix(&self) -> &str {
        let embedding = self.layers.first().and_then(|layer| layer.views.first());
        embedding.and_then(|view| view.name.strip_suffix(names::EMBEDDING)).unwrap_or_default()
    }

    /// A layout with the same layers, in which `of` maps each tensor's name and shape to its matrices.
    pub(crate) fn of_matrices<const N: usize>(
        &self,
        of: impl Fn(&str, &[usize]) -> Option<[(String, [usize; 2]); N]>,
    ) -> Self {
        let matrices = |layer: &LayerLayout| {
            let mut made = LayerLayout::default();
            for (name, shape) in layer.views.iter().filter_map(|view| of(&view.name, &view.shape)).flatten() {
                made.push(&name, Part::Adapter, &shape);
            }
            made
        };
        Self { layers: self.layers.iter().map(matrices).collect() }
    }

    /// A tensor of the checkpoint, sharing the memory of the layer's buffer.
    ///
    /// # Errors
    /// A layer or view outside the layout, or the buffer is too short.
    pub fn view(&self, buffer: &Tensor, layer: usize, view: usize) -> Result<Tensor> {
        match self.layers.get(layer).and_then(|layer| layer.views.get(view)) {
            Some(at) => Ok(buffer.narrow(0, at.offset, at.len())?.reshape(at.shape.as_slice())?),
            None => Err(Error::Config(format!("no view {view} in layer {layer}"))),
        }
    }

    /// A part, sharing the memory of the layer's buffer; `None` if the layer does not have it.
    ///
    /// # Errors
    /// A buffer that is too short.
    pub fn part(&self, buffer: &Tensor, layer: usize, part: Part) -> Result<Option<Tensor>> {
        self.joined(buffer, layer, &[part])
    }

    /// Consecutive parts of the same width as one tensor with all rows; `None` if the layer does not have them.
    ///
    /// # Errors
    /// A buffer that is too short.
    pub(crate) fn joined(&self, buffer: &Tensor, layer: usize, parts: &[Part]) -> Result<Option<Tensor>> {
        let Some((offset, shape)) = self.layers.get(layer).and_then(|layer| layer.joined(parts)) else {
            return Ok(None);
        };
        let len = shape.iter().product();
        Ok(Some(buffer.narrow(0, offset, len)?.reshape(shape)?))
    }

    /// [`Layout::joined`] of required parts.
    ///
    /// # Errors
    /// A layer without them, or a buffer that is too short.
    pub(crate) fn required(&self, buffer: &Tensor, layer: usize, parts: &[Part]) -> Result<Tensor> {
        self.joined(buffer, layer, parts)?
            .ok_or_else(|| Error::Config(format!("the layout of layer {layer} has no {parts:?}")))
    }

    /// Freezes the tensors for whose first part `frozen` is true. Gradients of this layout are those of a model that trains the
    /// others. On a device with kernels, linear layers with the same input must be frozen together.
    pub fn freeze(mut self, frozen: impl Fn(Part) -> bool) -> Self {
        for view in self.layers.iter_mut().flat_map(|layer| &mut layer.views) {
            if frozen(view.part) {
                view.update = Update::Frozen;
            }
        }
        self
    }

    /// Whether a part is trained; `None` if the layer does not have it.
    pub(crate) fn update(&self, layer: usize, part: Part) -> Option<Update> {
        let layer = self.layers.get(layer)?;
        let offset = layer.parts.iter().find(|place| place.part == part)?.offset;
        let view = layer.views.iter().rev().find(|view| view.offset <= offset)?;
        Some(view.update)
    }

    /// The parts of a layer's buffer of `len` elements outside its trained matrices.
    pub(crate) fn outside_trained_matrices(&self, layer: usize, len: usize) -> Vec<Range<usize>> {
        let views = self.layers.get(layer).map(|layer| layer.views.as_slice()).unwrap_or_default();
        let (mut outside, mut from) = (Vec::new(), 0);
        for view in views.iter().filter(|view| view.shape.len() == 2 && view.update == Update::Trained) {
            outside.push(from..view.offset);
            from = view.offset + view.len();
        }
        outside.push(from..len);
        outside.retain(|range| !range.is_empty());
        outside
    }

    /// Whether both have the same tensors in the same positions, trained or frozen.
    pub(crate) fn has_tensors_of(&self, other: &Self) -> bool {
        self == other || {
            let same = |(own, other): (&LayerLayout, &LayerLayout)| {
                let views = own.views.iter().zip(&other.views);
                let mut views = views.map(|(a, b)| (&a.name, &a.shape, a.offset) == (&b.name, &b.shape, b.offset));
                own.parts == other.parts && own.views.len() == other.views.len() && views.all(|same| same)
            };
            self.layers.len() == other.layers.len() && self.layers.iter().zip(&other.layers).all(same)
        }
    }

    /// The first difference to another layout; `None` if they are equal.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        if self.has_tensors_of(other) {
            return None;
        }
        let tensors = |layout: &Self| {
            let views = layout.layers.iter().flat_map(|layer| &layer.views);
            views.map(|view| format!("`{}` {:?}", view.name, view.shape)).collect::<Vec<_>>()
        };
        let (ours, theirs) = (tensors(self), tensors(other));
        let at = (0..ours.len().max(theirs.len())).find(|at| ours.get(*at) != theirs.get(*at));
        let named = |tensors: &[String]| at.and_then(|at| tensors.get(at).cloned()).unwrap_or("nothing".into());
        Some(format!("{} in the place of {}", named(&theirs), named(&ours)))
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.layers.iter().map(|l| l.len).sum()
    }

    /// Bytes of the parameters.
    pub(crate) fn bytes(&self, dtype: WeightDtype) -> u64 {
        (self.len() as u64).saturating_mul(dtype.bytes() as u64)
    }

    /// Whether the model has no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
