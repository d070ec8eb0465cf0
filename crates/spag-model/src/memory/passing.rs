//! Whole layers that pass through a rank which keeps parts of them: parameters on their way in, gradients on their way
//! out.

use crate::params::Layout;

/// Layers that are gathered at a time: the one that is read, the next one, and the one before it.
const GATHERED: usize = 3;

/// What passes through a rank, in bytes, at two moments of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passing {
    /// While a block, or the embedding, is at work.
    pub(super) blocks: Whole,
    /// While the head is.
    pub(super) head: Whole,
}

/// Bytes of whole layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    /// Parameters that are gathered.
    pub(super) gathered: u64,
    /// Gradients that are added to, or summed over the ranks.
    pub(super) reducing: u64,
}

impl Whole {
    pub(super) fn total(self) -> u64 {
        self.gathered + self.reducing
    }
}

/// Bytes of a layer's buffers, by its number; 0 for what does not pass through.
pub(super) struct Buffers<'a> {
    pub(super) parameters: &'a dyn Fn(usize) -> u64,
    pub(super) gradients: &'a dyn Fn(usize) -> u64,
}

impl Passing {
    /// Of a step of several micro-batches. `tied`: the head's matrix is the embedding.
    ///
    /// A layer's gradients are added to while those of the layer above are summed. The embedding's come last, so they are
    /// still being summed when the next micro-batch reaches the head; with a tied head their next buffer is open from
    /// there to the end.
    pub(super) fn new(layout: &Layout, tied: bool, buffers: &Buffers<'_>) -> Self {
        let last = layout.layers.len().saturating_sub(1);
        let open_embedding = if tied { (buffers.gradients)(0) } else { 0 };
        let at = |layer: usize| Whole {
            gathered: gathered_at(layer, last, buffers.parameters),
            reducing: match layer {
                0 => (buffers.gradients)(0) + (buffers.gradients)(1),
                layer => open_embedding + (buffers.gradients)(layer) + (buffers.gradients)(layer + 1),
            },
        };
        let head = Whole {
            // The norm, the embedding and the block before.
            gathered: match tied {
                true => [0, last, last.saturating_sub(1)].map(buffers.parameters).iter().sum(),
                false => gathered_at(last, last, buffers.parameters),
            },
            reducing: open_embedding + (buffers.gradients)(last) + (buffers.gradients)(0),
        };
        let blocks = (0..last).map(at).max_by_key(|whole| whole.total()).unwrap_or_default();
        Self { blocks, head }
    }
}

/// The largest sum of successive layers that are there while `layer` is at work.
fn gathered_at(layer: usize, last: usize, bytes_of: &dyn Fn(usize) -> u64) -> u64 {
    let most = (last + 1).saturating_sub(GATHERED);
    // Forwards and backwards.
    let starts = [layer.saturating_sub(1).min(most), layer.min(most)];
    let from = |start: usize| (start..(start + GATHERED).min(last + 1)).map(bytes_of).sum();
    match layer {
        // The backward pass does not read the embedding: those that were there before are still there.
        0 => starts.into_iter().chain([1.min(most)]).map(from).max().unwrap_or(0),
        _ => from(starts[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LlamaConfig;

    fn layout(vocabulary: usize, tied: bool) -> Layout {
        let json = format!(
            r#"{{"hidden_size": 4, "intermediate_size": 8, "vocab_size": {vocabulary}, "num_hidden_layers": 4,
                "num_attention_heads": 1, "max_position_embeddings": 8, "tie_word_embeddings": {tied}}}"#
        );
        Layout::new(&serde_json::from_str::<LlamaConfig>(&json).unwrap())
    }

    fn passing(layout: &Layout, tied: bool) -> Passing {
        let len = |layer: usize| layout.layers.get(layer).map_or(0, |layer| layer.len as u64);
        Passing::new(layout, tied, &Buffers { parameters: &|layer| 2 * len(layer), gradients: &|layer| 4 * len(layer) })
    }

    /// Blocks of 4·16 + 3·32 + 8 = 168 elements.
    #[test]
    fn large_blocks_by_hand() {
        let Passing { blocks, head } = passing(&layout(10, false), false);
        assert_eq!(blocks, Whole { gathered: 2 * 3 * 168, reducing: 4 * 2 * 168 });
        assert_eq!(head, Whole { gathered: 2 * (2 * 168 + 44), reducing: 4 * (44 + 40) });
    }

    /// Embedding of 4 000 elements, head of 4 004.
    #[test]
    fn a_large_vocabulary_by_hand() {
        let Passing { blocks, head } = passing(&layout(1000, false), false);
        assert_eq!(blocks, Whole { gathered: 2 * (4004 + 2 * 168), reducing: 4 * (4004 + 168) });
        assert_eq!(head, Whole { gathered: 2 * (4004 + 2 * 168), reducing: 4 * (4004 + 4000) });
    }

    #[test]
    fn a_tied_embedding_is_open_all_along() {
        let Passing { blocks, head } = passing(&layout(1000, true), true);
        assert_eq!(blocks.reducing, 4 * (4000 + 2 * 168));
        assert_eq!(head.reducing, 4 * (2 * 4000 + 4));
        assert_eq!(head.gathered, 2 * (4000 + 4 + 168));
    }
}
