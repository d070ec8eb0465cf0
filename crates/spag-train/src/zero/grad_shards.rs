//! Gradients that are reduce-scattered layer by layer during the backward pass.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use spag_dist::{Collective, Pending, ProcessGroup};
use spag_model::dtype::WeightDtype;
use spag_model::params::{GradientSink, Layout};
use spag_ops::accumulate::{add_into, set_zero};
use spag_ops::cast::{converted, widened};
use spag_ops::kernels::Accumulate;

use super::Partition;
use super::stale::Stale;
use crate::error::Result;

/// Completed layers whose reduction runs while the backward pass continues with the layer below.
pub(crate) const REDUCING_LAYERS: usize = 1;

/// Takes the gradients of backward passes layer by layer, reduces them over the ranks, and accumulates the own shards of
/// the sums. All ranks have to complete the same layers in the same order.
pub(crate) struct GradShards {
    group: Arc<dyn ProcessGroup>,
    partition: Partition,
    device: Device,
    /// Whole layers are rounded to this format before they are reduced.
    dtype: WeightDtype,
    /// f32, one per layer.
    shards: Vec<Tensor>,
    stale: Stale,
    buffers: Mutex<Buffers>,
}

/// Whole layers, f32 unless they are being reduced.
#[derive(Default)]
struct Buffers {
    /// The pass adds gradients to these.
    open: Vec<(usize, Tensor)>,
    /// Being reduced, the oldest first.
    reducing: VecDeque<(usize, Tensor, Pending)>,
    /// The last reduced one, reused for a layer of the same size.
    spare: Option<Tensor>,
}

impl GradShards {
    /// Accumulates the own shards of the sums in `shards`; gradients are reduced in `dtype`.
    pub(crate) fn new(
        group: Arc<dyn ProcessGroup>,
        partition: Partition,
        shards: Vec<Tensor>,
        (device, dtype): (&Device, WeightDtype),
    ) -> Self {
        let stale = Stale::none(shards.len());
        Self { group, partition, device: device.clone(), dtype, shards, stale, buffers: Mutex::default() }
    }

    /// The own shards of the sums.
    pub(crate) fn shards(&self) -> &[Tensor] {
        &self.shards
    }

    /// Begins a step: its first reductions are written over the sums of the one before.
    pub(crate) fn begin(&self) {
        self.stale.mark_all();
    }

    /// Waits for all reductions and frees the whole layers. Layers that no pass has reached have no gradients.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut buffers = self.buffers();
        while !buffers.reducing.is_empty() {
            self.finish_oldest(&mut buffers)?;
        }
        *buffers = Buffers::default();
        self.stale.take_all().try_for_each(|layer| Ok(set_zero(&self.shards[layer])?))
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The layer whose reduction it finishes, if there is one.
    fn finish_oldest(&self, buffers: &mut Buffers) -> Result<Option<usize>> {
        let Some((layer, buffer, pending)) = buffers.reducing.pop_front() else { return Ok(None) };
        pending.wait()?;
        let (own, sums) = (widened(&self.partition.own(&buffer, layer)?)?, &self.shards[layer]);
        match self.stale.take(layer) {
            true => sums.slice_set(&own, 0, 0)?,
            false => add_into(&own, sums)?,
        }
        if buffer.dtype() == DType::F32 {
            buffers.spare = Some(buffer);
        }
        Ok(Some(layer))
    }

    /// The buffer of a layer in this pass. One that need not be added to has the gradients of another layer.
    fn open(&self, layer: usize) -> Result<(Tensor, Accumulate)> {
        let mut buffers = self.buffers();
        if let Some((_, buffer)) = buffers.open.iter().find(|(open, _)| *open == layer) {
            return Ok((buffer.clone(), Accumulate::Yes));
        }
        let len = self.partition.padded_len(layer);
        let opened = match buffers.spare.take().filter(|spare| spare.elem_count() == len) {
            Some(spare) => (spare, Accumulate::No),
            None => (Tensor::zeros(len, DType::F32, &self.device)?, Accumulate::Yes),
        };
        buffers.open.push((layer, opened.0.clone()));
        Ok(opened)
    }

    /// Starts the reduction of a layer that a pass has completed. Returns the layer above whose sums are complete now, if there is one.
    pub(super) fn reduce(&self, layer: usize) -> Result<Option<usize>> {
        let mut buffers = self.buffers();
        let Some(at) = buffers.open.iter().position(|(open, _)| *open == layer) else { return Ok(None) };
        let (_, buffer) = buffers.open.remove(at);
        if buffer.elem_count() == 0 {
            // An adapter has no parameters in the first and the last layer, and devices run no kernel of zero blocks.
            return Ok(None);
        }
        let sent = converted(&buffer, self.dtype.into())?;
        let pending = self.group.start(Collective::ReduceScatter(sent.clone()))?;
        if sent.dtype() != DType::F32 {
            buffers.spare = Some(buffer);
        }
        buffers.reducing.push_back((layer, sent, pending));
        if buffers.reducing.len() > REDUCING_LAYERS { self.finish_oldest(&mut buffers) } else { Ok(None) }
    }
}

impl GradientSink for GradShards {
    fn layout(&self) -> &Layout {
        self.partition.layout()
    }

    fn buffer(&self, layer: usize) -> spag_model::Result<Tensor> {
        let (buffer, accumulate) = self.open(layer).map_err(super::into_model)?;
        if accumulate == Accumulate::No {
            set_zero(&buffer)?;
        }
        Ok(buffer)
    }

    fn block_buffer(&self, layer: usize) -> spag_model::Result<(Tensor, Accumulate)> {
        self.open(layer).map_err(super::into_model)
    }

    fn complete(&self, layer: usize) -> spag_model::Result<()> {
        self.reduce(layer).map(drop).map_err(super::into_model)
    }
}

#[cfg(test)]
mod tests {
    use spag_dist::Single;
    use spag_model::ModelConfig;

    use super::*;

    #[test]
    fn gradients_are_rounded_before_they_are_reduced_and_added_in_f32() {
        let config: ModelConfig = serde_json::from_str(
            r#"{"hidden_size": 4, "intermediate_size": 6, "vocab_size": 8, "num_hidden_layers": 1,
                "num_attention_heads": 1, "max_position_embeddings": 8}"#,
        )
        .unwrap();
        let partition = Partition::whole(&Layout::new(&config.architecture));
        // 1 + 2^-12 and the sum 1 + 2^-10 are no bf16 numbers.
        for (dtype, sum) in [(WeightDtype::F32, 1.0f32 + 5.0 / 4096.0), (WeightDtype::Bf16, 1.0 + 4.0 / 4096.0)] {
            let sums = partition.zeros(DType::F32, &Device::Cpu).unwrap();
            let gradients = GradShards::new(Arc::new(Single), partition.clone(), sums, (&Device::Cpu, dtype));
            for gradient in [1.0 + 1.0 / 4096.0, 1.0f32 / 1024.0] {
                for layer in [2, 1, 0] {
                    let buffer = gradients.buffer(layer).unwrap();
                    let zeros = buffer.to_vec1::<f32>().unwrap();
                    assert!(zeros.iter().all(|zero| *zero == 0.0), "a buffer that is used again begins at zero");
                    buffer.slice_set(&Tensor::full(gradient, buffer.dims(), &Device::Cpu).unwrap(), 0, 0).unwrap();
                    gradients.complete(layer).unwrap();
                }
                gradients.finish().unwrap();
            }
            let got: Vec<Vec<f32>> = gradients.shards().iter().map(|shard| shard.to_vec1().unwrap()).collect();
            assert!(got.iter().flatten().all(|value| *value == sum), "{dtype}: {got:?}, not {sum}");
        }
    }
}
