//! What of a run's state is sharded over its ranks, and in which memory it is stored.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// ZeRO stage: what is sharded over the ranks. Each stage includes the one before. In files it is a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u64")]
pub enum ZeroStage {
    /// 0: nothing.
    #[default]
    Disabled,
    /// 1: the optimizer's state.
    OptimizerState,
    /// 2: gradients too.
    Gradients,
    /// 3: parameters too.
    Parameters,
}

impl ZeroStage {
    /// All stages in order.
    pub const ALL: [Self; 4] = [Self::Disabled, Self::OptimizerState, Self::Gradients, Self::Parameters];

    /// The number of the stage.
    pub fn number(self) -> u8 {
        self as u8
    }
}

impl From<ZeroStage> for u8 {
    fn from(stage: ZeroStage) -> Self {
        stage.number()
    }
}

impl TryFrom<u64> for ZeroStage {
    type Error = String;
    fn try_from(number: u64) -> Result<Self, String> {
        let stage = Self::ALL.into_iter().find(|stage| u64::from(stage.number()) == number);
        stage.ok_or_else(|| format!("unknown ZeRO stage {number}, expected 0, 1, 2 or 3"))
    }
}

impl std::str::FromStr for ZeroStage {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number: u64 = text.parse().map_err(|_| format!("unknown ZeRO stage {text}, expected 0, 1, 2 or 3"))?;
        number.try_into()
    }
}

/// The memory that a part of the state is stored in. Flags and DeepSpeed files write `none` (not offloaded) and `cpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// The device that computes.
    #[default]
    #[serde(rename = "none")]
    Device,
    /// The host's memory.
    #[serde(rename = "cpu")]
    Host,
}

impl Placement {
    /// Parses `auto` as `None`: the placement is chosen by free memory.
    ///
    /// # Errors
    /// Another word than `auto`, `none` and `cpu`.
    pub fn or_auto(text: &str) -> Result<Option<Self>, String> {
        if text == "auto" {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| format!("unknown placement \"{text}\"; expected auto, none or cpu"))
    }
}

/// The ranks that a state is sharded over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardWithin {
    /// All ranks.
    #[default]
    All,
    /// The ranks of a host; each host has the whole state (hybrid sharding: FSDP's `HYBRID_SHARD`, DeepSpeed's MiCS).
    Host,
}

/// What of a run's state is sharded over its ranks, and where the state is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardingPlan {
    /// What is sharded.
    pub stage: ZeroStage,
    /// Over which ranks.
    pub within: ShardWithin,
    /// Where the optimizer's state is stored. Parameters on the host are updated there, whatever this says.
    pub optimizer: Placement,
    /// Where the parameters of stage 3 are stored between their uses.
    pub parameters: Placement,
}

impl ShardingPlan {
    /// Every stage with every offload that it allows, over all ranks.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for stage in ZeroStage::ALL {
            for optimizer in [Placement::Device, Placement::Host] {
                all.push(Self { stage, optimizer, ..Self::default() });
            }
            if stage == ZeroStage::Parameters {
                let (optimizer, parameters) = (Placement::Host, Placement::Host);
                all.push(Self { stage, optimizer, parameters, ..Self::default() });
            }
        }
        all
    }

    /// Ranks that share a state, if there are `world_size` in all and `local_size` on each host.
    pub fn shards(&self, world_size: usize, local_size: usize) -> usize {
        match self.within {
            ShardWithin::All => world_size,
            ShardWithin::Host => local_size.min(world_size),
        }
    }

    /// Whether passes gather layers before they read them: in stage 3, unless one of `shards` ranks has all parameters in the
    /// memory that it computes in.
    pub fn gathers(&self, shards: usize) -> bool {
        self.stage == ZeroStage::Parameters && (shards > 1 || self.parameters == Placement::Host)
    }

    /// The flags for this plan.
    pub fn flags(&self) -> String {
        let Self { stage, within, optimizer, parameters } = self;
        let stage = stage.number();
        let within = match within {
            ShardWithin::All => String::new(),
            ShardWithin::Host => format!(" --shard_within {within}"),
        };
        format!("--zero_stage {stage} --offload_optimizer {optimizer} --offload_param {parameters}{within}")
    }
}

/// The request of flags and DeepSpeed file, before free memory is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardingRequest {
    /// What is sharded.
    pub stage: ZeroStage,
    /// Over which ranks.
    pub within: ShardWithin,
    /// Where the optimizer's state is stored; `None` chooses by free memory.
    pub optimizer: Option<Placement>,
    /// Where the parameters of stage 3 are stored between their uses.
    pub parameters: Placement,
}

impl ShardingRequest {
    /// Joins the flags with the plan of a DeepSpeed file, whose state is sharded over all ranks.
    ///
    /// # Errors
    /// A flag that contradicts the file, or parameters offloaded below stage 3.
    pub fn new(
        stage: Option<ZeroStage>,
        optimizer: Option<Placement>,
        parameters: Placement,
        file: Option<ShardingPlan>,
    ) -> Result<Self> {
        if let (Some(flag), Some(file)) = (stage, file)
            && flag != file.stage
        {
            let (flag, file) = (flag.number(), file.stage.number());
            let reason =
                format!("it is {flag}, and `zero_optimization.stage` in the --deepspeed file is {file}; omit the flag");
            return Err(Error::Setting { name: "zero_stage", reason });
        }
        let offloaded =
            |placement: fn(&ShardingPlan) -> Placement| file.as_ref().map(placement) == Some(Placement::Host);
        let optimizer = match (optimizer, offloaded(|plan| plan.optimizer)) {
            (None, true) => Some(Placement::Host),
            (Some(Placement::Device), true) => {
                let reason = "it is none, and `zero_optimization.offload_optimizer.device` in the --deepspeed file is \
                              \"cpu\"; omit one of them";
                return Err(Error::Setting { name: "offload_optimizer", reason: reason.into() });
            }
            (flag, _) => flag,
        };
        let request = Self {
            stage: stage.or(file.map(|plan| plan.stage)).unwrap_or_default(),
            within: ShardWithin::All,
            optimizer,
            parameters: if offloaded(|plan| plan.parameters) { Placement::Host } else { parameters },
        };
        if request.parameters == Placement::Host && request.stage != ZeroStage::Parameters {
            let reason = format!("it needs ZeRO stage 3, not {}: pass --zero_stage 3", request.stage.number());
            return Err(Error::Setting { name: "offload_param", reason });
        }
        Ok(request)
    }
}
