//! Whole layers that exist for a while on a rank that stores shards of them: gathered parameters, unreduced gradients.

use std::convert::Infallible;

use spag_model::params::Layout;

use crate::zero::{LayerCache, REDUCING_LAYERS};

/// Peak bytes of whole layers at two moments of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WholeLayers {
    /// While a block, or the embedding, computes.
    pub(super) blocks: Whole,
    /// While the head computes.
    pub(super) head: Whole,
}

/// Bytes of whole layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    /// Gathered parameters.
    pub(super) gathered: u64,
    /// Gradients that are accumulated or reduced.
    pub(super) reducing: u64,
}

impl Whole {
    pub(super) fn total(self) -> u64 {
        self.gathered + self.reducing
    }
}

/// Bytes of a whole layer by its number; 0 for what is not sharded.
pub(super) struct LayerBytes<'a> {
    pub(super) parameters: &'a dyn Fn(usize) -> u64,
    pub(super) gradients: &'a dyn Fn(usize) -> u64,
    /// A copy of the gradients that is rounded and reduced; 0 if they are reduced in place.
    pub(super) rounded: &'a dyn Fn(usize) -> u64,
}

impl WholeLayers {
    /// The peaks of a step with several micro-batches. `tied`: the head's matrix is the embedding.
    pub(super) fn new(layout: &Layout, tied: bool, bytes: &LayerBytes<'_>) -> Self {
        let last = layout.layers.len().saturating_sub(1);
        let gathered = gathered(last, tied, bytes.parameters);
        // A tied embedding's buffer is open from the head to the end of the backward pass.
        let open_embedding = if tied { (bytes.gradients)(0) } else { 0 };
        let in_reduction = |layer: usize| match (bytes.rounded)(layer) {
            0 => (bytes.gradients)(layer),
            rounded => rounded,
        };
        let reducing = |layer: usize| {
            let open = if layer == 0 { 0 } else { open_embedding };
            // The layer itself and its copy, and those above that are still being reduced.
            let above = (layer + 1..=layer + REDUCING_LAYERS).map(in_reduction).sum::<u64>();
            open + (bytes.gradients)(layer) + (bytes.rounded)(layer) + above
        };
        let at = |layer: usize| Whole { gathered: gathered[layer], reducing: reducing(layer) };
        let blocks = (0..last).map(at).max_by_key(|whole| whole.total()).unwrap_or_default();
        let head = Whole {
            gathered: gathered[last],
            // The embedding of the micro-batch before may still be in reduction.
            reducing: reducing(last) + in_reduction(0),
        };
        Self { blocks, head }
    }
}

/// The most bytes of gathered layers while each layer is in use: two micro-batches, with the layers in the order in
/// which [`spag_model::model::Network`] reads them.
fn gathered(last: usize, tied: bool, bytes: &dyn Fn(usize) -> u64) -> Vec<u64> {
    let mut cache = LayerCache::default();
    let mut peaks = vec![0; last + 1];
    let mut read = |layer: usize, next: Option<usize>, moment: usize| {
        let Ok(_) = cache.acquire(layer, next, |layer, _| Ok::<_, Infallible>(bytes(layer)));
        cache.release(layer);
        peaks[moment] = cache.values().sum::<u64>().max(peaks[moment]);
    };
    for _micro_batch in 0..2 {
        for layer in 0..last {
            read(layer, Some(layer + 1), layer);
        }
        for next in [None, last.checked_sub(1)] {
            read(last, if tied { Some(0) } else { next }, last);
            if tied {
                read(0, next, last);
            }
        }
        for layer in (1..last).rev() {
            read(layer, Some(layer - 1).filter(|below| *below > 0), layer);
        }
        // The embedding's backward pass reads no parameters; what was gathered before still exists.
        if last > 1 {
            read(1, None, 0);
        }
    }
    peaks
}

#[cfg(test)]
mod tests {
    use spag_model::ModelConfig;

    use super::*;

    fn layout(vocabulary: usize, tied: bool) -> Layout {
        let json = format!(
            r#"{{"hidden_size": 4, "intermediate_size": 8, "vocab_size": {vocabulary}, "num_hidden_layers": 4,
                "num_attention_heads": 1, "max_position_embeddings": 8, "tie_word_embeddings": {tied}}}"#
        );
        Layout::new(&serde_json::from_str::<ModelConfig>(&json).unwrap().architecture)
    }

    fn whole_layers(layout: &Layout, tied: bool) -> WholeLayers {
        whole_layers_with(layout, tied, &|_| 0)
    }

    fn whole_layers_with(layout: &Layout, tied: bool, rounded: &dyn Fn(usize) -> u64) -> WholeLayers {
        let len = |layer: usize| layout.layers.get(layer).map_or(0, |layer| layer.len as u64);
        let bytes = LayerBytes { parameters: &|layer| 2 * len(layer), gradients: &|layer| 4 * len(layer), rounded };
        WholeLayers::new(layout, tied, &bytes)
    }

    #[test]
    fn rounded_gradients_are_copies_of_half_the_size() {
        let layout = layout(10, false);
        let len = |layer: usize| layout.layers.get(layer).map_or(0, |layer| layer.len as u64);
        let WholeLayers { blocks, head } = whole_layers_with(&layout, false, &|layer| 2 * len(layer));
        assert_eq!((blocks.reducing, head.reducing), ((4 + 2 + 2) * 168, (4 + 2) * 44 + 2 * 40));
    }

    /// Blocks of 4·16 + 3·32 + 8 = 168 elements.
    #[test]
    fn large_blocks_by_hand() {
        let WholeLayers { blocks, head } = whole_layers(&layout(10, false), false);
        assert_eq!(blocks, Whole { gathered: 2 * 3 * 168, reducing: 4 * 2 * 168 });
        assert_eq!(head, Whole { gathered: 2 * (2 * 168 + 44), reducing: 4 * (44 + 40) });
    }

    /// Embedding of 4 000 elements, head of 4 004.
    #[test]
    fn large_vocabulary_by_hand() {
        let WholeLayers { blocks, head } = whole_layers(&layout(1000, false), false);
        assert_eq!(blocks, Whole { gathered: 2 * (4004 + 2 * 168), reducing: 4 * (4004 + 168) });
        assert_eq!(head, Whole { gathered: 2 * (4004 + 2 * 168), reducing: 4 * (4004 + 4000) });
    }

    #[test]
    fn tied_embedding_is_open_during_the_whole_backward_pass() {
        let WholeLayers { blocks, head } = whole_layers(&layout(1000, true), true);
        assert_eq!(blocks.reducing, 4 * (4000 + 2 * 168));
        assert_eq!(head.reducing, 4 * (2 * 4000 + 4));
        assert_eq!(head.gathered, 2 * (4000 + 4 + 168));
    }
}
