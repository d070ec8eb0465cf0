//! Settings that change where and how a training is computed and measured, but not its result.

use std::path::PathBuf;

use clap::Args;

use super::{Placement, ShardWithin, ZeroStage};

spag_io::settings! {
    /// What the result of a training does not depend on: how its state is distributed over ranks and memories, and what it
    /// is evaluated on.
    #[derive(Args)]
    pub flags JobSettings {
        /// DeepSpeed configuration (JSON). Its ZeRO settings and its scheduler are used; other settings must agree with the
        /// flags.
        #[arg(value_name = "FILE", help_heading = "Device")]
        pub deepspeed: Option<PathBuf>;
        /// What is sharded over the ranks: nothing (0), the optimizer state (1), gradients too (2), parameters too (3). By
        /// default the stage of --deepspeed, or 0 without it. The result is the same.
        #[arg(value_name = "STAGE", help_heading = "Device")]
        pub zero_stage: Option<ZeroStage>;
        /// The ranks that --zero_stage shards over: all, or host: those of each host, so that layers are gathered and gradients
        /// reduced within hosts, and only sums of gradients are reduced between hosts, once a step (hybrid sharding). Every host needs
        /// equally many ranks. Gradients differ by rounding.
        #[arg(value_name = "RANKS", default_value = "all", help_heading = "Device")]
        pub shard_within: Option<ShardWithin>;
        /// Where the parameters of ZeRO stage 3 are stored between their uses: none (on the device) or cpu (in host memory).
        #[arg(value_name = "PLACE", default_value = "none", help_heading = "Device")]
        pub offload_param: Option<Placement>;
        /// Where the optimizer state is stored if the model is on a GPU: none (on the device), cpu (in host memory), or auto,
        /// which is none if it fits.
        // The full path keeps clap from treating the type as an optional flag: `None` is the parsed `auto`.
        #[arg(value_name = "PLACE", default_value = "auto", value_parser = Placement::or_auto, help_heading = "Device")]
        pub offload_optimizer: ::std::option::Option<Placement>;
        /// Samples to evaluate the loss on.
        #[arg(value_name = "FILE", num_args = 1.., help_heading = "Model and data")]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub eval_data_path: Vec<PathBuf>;
    }
}
