//! Which elements of each layer belong to the shard of which rank.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use spag_model::params::Layout;

use crate::error::Result;
use crate::optimizer::{UpdateSpan, UpdateUnit, update_spans};

/// Shards begin at multiples of this many elements, for the kernels' vector loads.
const ALIGNMENT: usize = 64;

/// Each layer cut into one shard per rank, of equal lengths, the last one padded with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    layout: Layout,
    rank: usize,
    size: usize,
}

impl Partition {
    /// The shards of rank `rank` of `size`.
    pub(crate) fn new(layout: &Layout, rank: usize, size: usize) -> Self {
        Self { layout: layout.clone(), rank, size: size.max(1) }
    }

    /// Everything, for a single process.
    pub(crate) fn whole(layout: &Layout) -> Self {
        Self::new(layout, 0, 1)
    }

    /// The layers that are sharded.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The length of a whole layer's buffer is a multiple of this.
    pub(crate) fn multiple(&self) -> usize {
        match self.size {
            1 => 1,
            size => size * ALIGNMENT,
        }
    }

    /// Elements of a whole layer's buffer, padding included.
    pub(crate) fn padded_len(&self, layer: usize) -> usize {
        self.layout.layers.get(layer).map_or(0, |layer| layer.len.next_multiple_of(self.multiple()))
    }

    /// Elements of a shard of a layer.
    pub(crate) fn shard_len(&self, layer: usize) -> usize {
        self.padded_len(layer) / self.size
    }

    /// The first element of the own shard in a whole layer's buffer.
    pub(crate) fn own_start(&self, layer: usize) -> usize {
        self.shard_len(layer) * self.rank
    }

    /// The own shard of a whole layer's buffer, as a view of it.
    pub(crate) fn own(&self, buffer: &Tensor, layer: usize) -> Result<Tensor> {
        Ok(buffer.narrow(0, self.own_start(layer), self.shard_len(layer))?)
    }

    /// The own shards of whole layers.
    pub(crate) fn own_of_all(&self, buffers: &[Tensor]) -> Result<Vec<Tensor>> {
        buffers.iter().enumerate().map(|(layer, buffer)| self.own(buffer, layer)).collect()
    }

    /// Shards of zeros, one per layer.
    pub(crate) fn zeros(&self, dtype: DType, device: &Device) -> Result<Vec<Tensor>> {
        let parts = (0..self.layout.layers.len()).map(|layer| Tensor::zeros(self.shard_len(layer), dtype, device));
        Ok(parts.collect::<candle_core::Result<_>>()?)
    }

    /// Copies the overlap of a tensor of the layout with the own shard. `values` is flat, in the host's memory.
    pub(crate) fn fill(&self, parts: &[Tensor], layer: usize, view: usize, values: &Tensor) -> Result<()> {
        let Some(at) = self.layout.layers.get(layer).and_then(|layer| layer.views.get(view)) else { return Ok(()) };
        let Range { start, end } = self.overlap(layer, at.offset..at.offset + at.len());
        if start < end {
            let values = values
                .narrow(0, start - at.offset, end - start)?
                .force_contiguous()?
                .to_device(parts[layer].device())?;
            parts[layer].slice_set(&values, 0, start - self.own_start(layer))?;
        }
        Ok(())
    }

    /// The overlap of a range of a layer's elements with the own shard.
    fn overlap(&self, layer: usize, range: Range<usize>) -> Range<usize> {
        let own = self.own_start(layer)..self.own_start(layer) + self.shard_len(layer);
        range.start.max(own.start)..range.end.min(own.end)
    }

    /// What an optimizer updates at once in the own shard of a layer.
    pub(crate) fn update_spans(&self, layer: usize, unit: UpdateUnit) -> Vec<UpdateSpan> {
        let range = self.own_start(layer)..self.own_start(layer) + self.shard_len(layer);
        self.layout.layers.get(layer).map_or(Vec::new(), |at| update_spans(at, range, unit))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spag_model::ModelConfig;

    use super::*;

    fn layout(hidden: usize, blocks: usize) -> Layout {
        let config = format!(
            r#"{{"hidden_size": {hidden}, "intermediate_size": 31, "vocab_size": 101, "num_hidden_layers": {blocks},
                 "num_attention_heads": 1, "max_position_embeddings": 8}}"#
        );
        Layout::new(&serde_json::from_str::<ModelConfig>(&config).unwrap().architecture)
    }

    proptest! {
        /// Every element of every view is in exactly one shard, at its index, with its view's decay.
        #[test]
        fn shards_cover_every_element_once(hidden in 1usize..40, blocks in 1usize..3, size in 1usize..9) {
            let layout = layout(2 * hidden, blocks);
            for (index, layer) in layout.layers.iter().enumerate() {
                let mut seen = vec![None; layer.len];
                for rank in 0..size {
                    let partition = Partition::new(&layout, rank, size);
                    prop_assert!(partition.padded_len(index) >= layer.len);
                    prop_assert_eq!(partition.shard_len(index) * size, partition.padded_len(index));
                    for span in partition.update_spans(index, UpdateUnit::Elements) {
                        prop_assert!(span.start + span.len <= partition.shard_len(index));
                        for element in span.start..span.start + span.len {
                            let place = partition.own_start(index) + element;
                            prop_assert!(seen[place].replace(span.decay).is_none(), "twice: {}", place);
                        }
                    }
                }
                for view in &layer.views {
                    let decays = view.shape.len() > 1;
                    prop_assert!(seen[view.offset..view.offset + view.len()].iter().all(|s| *s == Some(decays)));
                }
            }
        }

        #[test]
        fn filled_shards_make_up_the_layer(hidden in 1usize..40, size in 1usize..6) {
            let layout = layout(2 * hidden, 1);
            let mut whole = vec![Vec::new(); layout.layers.len()];
            for rank in 0..size {
                let partition = Partition::new(&layout, rank, size);
                let parts = partition.zeros(DType::F32, &Device::Cpu).unwrap();
                for (l, layer) in layout.layers.iter().enumerate() {
                    for (v, view) in layer.views.iter().enumerate() {
                        let values: Vec<f32> = (view.offset..view.offset + view.len()).map(|i| i as f32).collect();
                        partition.fill(&parts, l, v, &Tensor::new(values, &Device::Cpu).unwrap()).unwrap();
                    }
                    whole[l].extend(parts[l].to_vec1::<f32>().unwrap());
                }
            }
            for (layer, values) in layout.layers.iter().zip(whole) {
                prop_assert!(values[..layer.len].iter().enumerate().all(|(i, value)| *value == i as f32));
                prop_assert!(values[layer.len..].iter().all(|value| *value == 0.0));
            }
        }
    }

    #[test]
    fn single_process_has_one_shard_without_padding() {
        let layout = layout(6, 2);
        let whole = Partition::whole(&layout);
        assert!(layout.layers.iter().enumerate().all(|(l, layer)| whole.padded_len(l) == layer.len));
        assert_eq!(
            whole.update_spans(1, UpdateUnit::Elements).iter().map(|s| s.len).sum::<usize>(),
            layout.layers[1].len
        );
        let [first, ..] = whole.update_spans(1, UpdateUnit::Elements)[..] else { panic!("no spans") };
        assert_eq!(first, UpdateSpan { start: 0, len: 6, decay: false, matrix: None });
    }
}
