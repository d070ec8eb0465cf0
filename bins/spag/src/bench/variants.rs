//! Variants of a training step, which `spag bench train --variants` compares.

use std::str::FromStr;

use spag_model::dtype::WeightDtype;
use spag_selfplay::limits;
use spag_train::{KeptBlocks, Placement};

use super::BATCH;
use super::simulated::Collectives;
use super::train::TrainArgs;

/// Changes a flag.
type Setting = fn(&mut TrainArgs);

/// The names of the settings that variants are made of, and what they change.
const SETTINGS: [(&str, Setting); 9] = [
    ("keep", |args| (args.checkpointing, args.keep_activations) = (false, KeptBlocks::Count(0))),
    ("recompute", |args| (args.checkpointing, args.keep_activations) = (true, KeptBlocks::Count(0))),
    ("f32-gradients", |args| args.optim_grad_dtype = WeightDtype::F32),
    ("bf16-gradients", |args| args.optim_grad_dtype = WeightDtype::Bf16),
    ("state-on-device", |args| args.offload_optimizer = Some(Placement::Device)),
    ("state-on-host", |args| args.offload_optimizer = Some(Placement::Host)),
    ("timed-links", |args| args.simulated.collectives = Collectives::Timed),
    ("links-in-turn", |args| args.simulated.collectives = Collectives::TimedInTurn),
    ("instant-links", |args| args.simulated.collectives = Collectives::Instant),
];

/// What a part of a variant changes.
#[derive(Clone, Copy, Debug)]
enum Change {
    Setting(Setting),
    /// Sequences of a micro-batch, and their tokens.
    Shape(usize, usize),
    /// Activations of some blocks are kept.
    Keep(KeptBlocks),
}

/// Changes of the flags, by the names of settings and a shape such as `8x500`, joined by `+`.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) name: String,
    changes: Vec<Change>,
}

impl Variant {
    /// The flags of the variant.
    pub(super) fn of(&self, args: &TrainArgs) -> TrainArgs {
        let mut args = args.clone();
        for change in &self.changes {
            match *change {
                Change::Setting(set) => set(&mut args),
                Change::Shape(batch, seq) => (args.batch, args.seq) = (batch, seq),
                Change::Keep(blocks) => (args.checkpointing, args.keep_activations) = (true, blocks),
            }
        }
        args
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = |part: &str| {
            let (batch, seq) = part.split_once('x')?;
            let (batch, seq) = (batch.parse().ok()?, seq.parse().ok()?);
            (BATCH.contains(&batch) && limits::LENGTH.contains(&seq)).then_some(Change::Shape(batch, seq))
        };
        let kept = |part: &str| part.strip_prefix("keep-")?.parse().ok().map(Change::Keep);
        let change = |part: &str| {
            let setting = SETTINGS.iter().find(|(name, _)| *name == part);
            setting.map(|(_, set)| Change::Setting(*set)).or_else(|| kept(part)).or_else(|| shape(part)).ok_or_else(
                || {
                    let names = SETTINGS.map(|(name, _)| name).join(", ");
                    format!(
                        "unknown setting \"{part}\"; expected {names}, keep-K, or sequences and tokens such as 8x500"
                    )
                },
            )
        };
        Ok(Self { name: text.to_owned(), changes: text.split('+').map(change).collect::<Result<_, _>>()? })
    }
}
