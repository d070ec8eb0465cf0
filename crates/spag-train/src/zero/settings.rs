//! What is asked of the splitting.

use spag_model::{Computer, OptimizerPlace, ParameterPlace, Sharding, Spread};

use crate::config::{OffloadParam, ZeroStage};

/// How a run's state is split over its ranks, and where it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zero {
    /// What is split.
    pub stage: ZeroStage,
    /// Where the optimizer's state lies.
    pub optimizer: OptimizerPlace,
    /// Where the parameters of stage 3 lie between their uses.
    pub parameters: OffloadParam,
}

impl Zero {
    /// Whether whole layers are put together when they are read: in stage 3, unless one process has all of them in the
    /// memory that it computes in.
    pub fn gathers(&self, ranks: usize) -> bool {
        self.stage == ZeroStage::Weights && (ranks > 1 || self.parameters == OffloadParam::Cpu)
    }

    /// The same for whoever plans memory.
    pub fn spread(&self, ranks: usize, computer: Computer) -> Spread {
        let sharding = match self.stage {
            ZeroStage::Disabled => Sharding::Nothing,
            ZeroStage::OptimizerState => Sharding::OptimizerState,
            ZeroStage::Gradients => Sharding::Gradients,
            ZeroStage::Weights => Sharding::Parameters,
        };
        let parameters = match self.parameters {
            OffloadParam::None => ParameterPlace::Device,
            OffloadParam::Cpu => ParameterPlace::Host,
        };
        Spread { ranks, sharding, parameters, computer }
    }
}
