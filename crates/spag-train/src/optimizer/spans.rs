//! Which elements of a layer's flat buffer an optimizer updates at once, and which have an element in a state buffer.

use std::ops::Range;

use spag_model::params::{LayerLayout, Layout, Part, View};

use super::UpdateUnit;

/// The parameters that have an element in a state buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covers {
    /// All.
    All,
    /// All but the matrices of blocks, for optimizers whose unit is [`UpdateUnit::Matrices`].
    AllButMatrices,
}

/// Consecutive elements of a layer's buffer that are updated in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpdateSpan {
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Whether weight decay applies.
    pub(crate) decay: bool,
    /// Rows and columns of a whole matrix.
    pub(crate) matrix: Option<(usize, usize)>,
}

/// The spans of a layer within `range`, relative to its start. If any decay, matrices do and norm weights do not, as in transformers.
/// Adjacent tensors that are updated alike are one span.
pub(crate) fn update_spans(layer: &LayerLayout, range: Range<usize>, unit: UpdateUnit) -> Vec<UpdateSpan> {
    let mut spans: Vec<UpdateSpan> = Vec::new();
    for view in &layer.views {
        let (start, end) = (view.offset.max(range.start), (view.offset + view.len()).min(range.end));
        if start >= end {
            continue;
        }
        let decay = view.shape.len() > 1 && unit != UpdateUnit::Layers;
        let matrix = matrix(view).filter(|_| unit == UpdateUnit::Matrices);
        match spans.last_mut() {
            Some(last) if last.decay == decay && last.matrix.is_none() && matrix.is_none() => last.len += end - start,
            _ => spans.push(UpdateSpan { start: start - range.start, len: end - start, decay, matrix }),
        }
    }
    spans
}

/// Rows and columns of a matrix of a block.
fn matrix(view: &View) -> Option<(usize, usize)> {
    match (view.part, &view.shape[..]) {
        (Part::Embedding | Part::Head, _) => None,
        (_, [rows, columns]) => Some((*rows, *columns)),
        _ => None,
    }
}

impl Covers {
    /// Whether a span has elements in the buffer.
    pub(crate) fn includes(self, span: &UpdateSpan) -> bool {
        self == Self::All || span.matrix.is_none()
    }

    /// The layout of the buffer for parameters of `layout`.
    pub(crate) fn layout(self, layout: &Layout) -> Layout {
        let mut covered = layout.clone();
        if self == Self::AllButMatrices {
            for layer in &mut covered.layers {
                layer.views.retain(|view| matrix(view).is_none());
                layer.len = 0;
                for view in &mut layer.views {
                    view.offset = layer.len;
                    layer.len += view.len();
                }
            }
        }
        covered
    }
}

#[cfg(test)]
mod tests {
    use spag_model::ModelConfig;

    use super::*;

    #[test]
    fn without_weight_decay_a_layer_is_one_span() {
        let config: ModelConfig = serde_json::from_str(
            r#"{"hidden_size": 4, "intermediate_size": 6, "vocab_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}"#,
        )
        .unwrap();
        let layout = Layout::new(&config.architecture);
        for layer in &layout.layers {
            let whole = UpdateSpan { start: 0, len: layer.len, decay: false, matrix: None };
            assert_eq!(update_spans(layer, 0..layer.len, UpdateUnit::Layers), [whole]);
        }
        let block = &layout.layers[1];
        let decays: Vec<bool> =
            update_spans(block, 0..block.len, UpdateUnit::Elements).iter().map(|span| span.decay).collect();
        assert_eq!(decays, [false, true, false, true]);
    }
}
