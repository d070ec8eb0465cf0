//! The sum of a model's weights and an adapter, which exists one layer at a time.

use candle_core::{Device, Tensor};
use spag_ops::cast::converted;

use super::Adapter;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::params::{Layout, WeightSource};

/// The weights of a model with an adapter added to them, on the host ([`Adapter::merged_with`]).
pub struct MergedWeights<'a> {
    pub(super) base: &'a dyn WeightSource,
    pub(super) adapter: &'a Adapter,
}

impl WeightSource for MergedWeights<'_> {
    fn layout(&self) -> &Layout {
        self.base.layout()
    }

    fn dtype(&self) -> WeightDtype {
        self.base.dtype()
    }

    fn device(&self) -> &Device {
        &Device::Cpu
    }

    fn unshard(&self, layer: usize, next: Option<usize>) -> Result<Tensor> {
        let layout = self.base.layout();
        let Some(own) = layout.layers.get(layer) else {
            return Err(Error::Config(format!("layer {layer} is out of range")));
        };
        let buffer = self.base.unshard(layer, next)?;
        let sum = Tensor::zeros(own.len, buffer.dtype(), &Device::Cpu)?;
        if own.len > 0 {
            sum.slice_set(&buffer.to_device(&Device::Cpu)?.narrow(0, 0, own.len)?, 0, 0)?;
        }
        for (view, values) in self.adapter.sums(layout, layer, |view| layout.view(&buffer, layer, view))? {
            let values = converted(&values, self.dtype().into())?.flatten_all()?;
            sum.slice_set(&values, 0, own.views[view].offset)?;
        }
        self.base.reshard(layer);
        Ok(sum)
    }

    fn reshard(&self, _layer: usize) {}
}
