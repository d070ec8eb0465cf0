//! How a training run is spread over its ranks.

/// What of a model's state is split over the ranks; each stage includes the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharding {
    /// ZeRO 0: nothing.
    #[default]
    Nothing,
    /// ZeRO 1: the optimizer's state.
    OptimizerState,
    /// ZeRO 2: gradients too.
    Gradients,
    /// ZeRO 3: parameters too.
    Parameters,
}

impl Sharding {
    /// All, in order.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::OptimizerState, Self::Gradients, Self::Parameters];

    /// The number of the stage.
    pub fn stage(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::OptimizerState => 1,
            Self::Gradients => 2,
            Self::Parameters => 3,
        }
    }
}

/// Where a rank's part of the parameters lies between its uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterPlace {
    /// On the device.
    #[default]
    Device,
    /// In the host's memory; with [`Sharding::Parameters`] alone.
    Host,
}

/// What computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Computer {
    /// A GPU: activations in the format of the parameters, and memory of its own.
    #[default]
    Gpu,
    /// A CPU: activations in f32; what is "on the host" is beside everything else.
    Cpu,
}

/// How a training run is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Ranks, one a device.
    pub ranks: usize,
    /// What is split over them.
    pub sharding: Sharding,
    /// Where a rank's part of the parameters lies.
    pub parameters: ParameterPlace,
    /// What computes.
    pub computer: Computer,
}

impl Spread {
    /// One process on a GPU.
    pub fn single() -> Self {
        Self { ranks: 1, sharding: Sharding::Nothing, parameters: ParameterPlace::Device, computer: Computer::Gpu }
    }
}
