//! Adapter settings.

use std::collections::BTreeMap;

use serde_json::Value;
use spag_io::quote;

use super::modules::{ALL_LINEAR, Pattern, Targets, ends_with};
use super::names::{matrix_names, module_of_weight};
use crate::config::{Architecture, Projections};
use crate::error::{Error, Result};
use crate::params::Layout;

/// The settings of a LoRA adapter, with PEFT's names and semantics. Loaded by [`LoraConfig::load`].
#[derive(Clone, Debug, PartialEq)]
pub struct LoraConfig {
    pub(super) rank: usize,
    pub(super) alpha: f64,
    pub(super) targets: Targets,
    /// `exclude_modules`: targets without an adapter.
    pub(super) excluded: Option<Targets>,
    /// `layers_to_transform`: restricts the adapter to blocks with these numbers.
    pub(super) blocks: Option<Vec<usize>>,
    pub(super) ranks: Vec<(Pattern, usize)>,
    pub(super) alphas: Vec<(Pattern, f64)>,
    pub(super) scaling: Scaling,
    pub(super) base: Option<String>,
}

/// The formula of the scale s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaling {
    /// alpha / r.
    Rank,
    /// alpha / √r (`use_rslora`, arXiv 2312.03732).
    RootOfRank,
}

impl LoraConfig {
    /// The largest rank.
    pub const MAX_RANK: usize = 1 << 16;

    /// Settings of a new adapter of rank `rank` with scale `alpha` / r, for modules with these names.
    ///
    /// # Errors
    /// The rank is 0 or too large.
    pub fn new(rank: usize, alpha: f64, modules: Vec<String>, base: Option<String>) -> Result<Self> {
        let rank = rank_of(&Value::from(rank)).map_err(|reason| Error::Config(format!("lora_r: {reason}")))?;
        let targets = match modules.as_slice() {
            [name] if name == ALL_LINEAR => Targets::AllLinear,
            _ => Targets::Named(modules),
        };
        let (ranks, alphas) = (Vec::new(), Vec::new());
        Ok(Self { rank, alpha, targets, excluded: None, blocks: None, ranks, alphas, scaling: Scaling::Rank, base })
    }

    /// The default modules of a new adapter: PEFT's for most models, or the fused QKV matrix if the checkpoint stores one.
    pub fn default_modules(model: &Architecture) -> Vec<String> {
        let names: &[&str] = match model.projections {
            Projections::Split => &["q_proj", "v_proj"],
            Projections::Packed => &["W_pack"],
            Projections::Fused => &["qkv_proj"],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The name or folder of the base model, as written by PEFT.
    pub fn base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// The rank of modules without a pattern.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The alpha of modules without a pattern.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The module names, or only `all-linear`; `None` for a regular expression.
    pub fn module_names(&self) -> Option<Vec<String>> {
        match &self.targets {
            Targets::AllLinear => Some(vec![ALL_LINEAR.to_owned()]),
            Targets::Named(names) => Some(names.clone()),
            Targets::Matching(_) => None,
        }
    }

    /// r of a module's matrices.
    ///
    /// # Errors
    /// As [`Pattern::matches`].
    fn rank_of(&self, module: &str) -> Result<usize, String> {
        Ok(first_match(&self.ranks, module)?.unwrap_or(self.rank))
    }

    /// The scale s of a module.
    ///
    /// # Errors
    /// As [`Pattern::matches`].
    pub(super) fn scale(&self, module: &str) -> Result<f64, String> {
        let alpha = first_match(&self.alphas, module)?.unwrap_or(self.alpha);
        let rank = self.rank_of(module)? as f64;
        Ok(match self.scaling {
            Scaling::Rank => alpha / rank,
            Scaling::RootOfRank => alpha / rank.sqrt(),
        })
    }

    /// Whether a linear layer of a block has an adapter.
    fn has_adapter(&self, module: &str) -> Result<bool, String> {
        let is_excluded = match &self.excluded {
            Some(excluded) => excluded.include(module)?,
            None => false,
        };
        let has_block = |blocks: &Vec<usize>| block_of(module).is_some_and(|block| blocks.contains(&block));
        Ok(!is_excluded && self.targets.include(module)? && self.blocks.as_ref().is_none_or(has_block))
    }

    /// The layout of the adapter's weights for a model: A and B of each targeted linear layer of its blocks, in the order of the
    /// model's parameters.
    ///
    /// # Errors
    /// A target is not a linear layer of a block, or there are no targets.
    pub(super) fn layout(&self, model: &Architecture) -> Result<Layout, String> {
        let base = Layout::new(model);
        let is_linear = |shape: &[usize]| shape.len() == 2;
        let blocks = base.layers.get(1..base.layers.len().saturating_sub(1)).unwrap_or_default();
        let linear: Vec<String> = blocks
            .iter()
            .flat_map(|block| &block.views)
            .filter_map(|view| module_of_weight(&view.name).filter(|_| is_linear(&view.shape)))
            .collect();
        if let Targets::Named(names) = &self.targets {
            let unmatched = |name: &&String| !linear.iter().any(|module| ends_with(module, name));
            if let Some(name) = names.iter().find(unmatched) {
                let mut known: Vec<&str> = linear.iter().filter_map(|module| module.rsplit('.').next()).collect();
                known.sort_unstable();
                known.dedup();
                return Err(format!(
                    "target_modules has \"{}\", which is no linear layer of the model's blocks; these are {}",
                    quote(name),
                    known.join(", ")
                ));
            }
        }
        let mut targets = BTreeMap::new();
        for module in linear {
            if self.has_adapter(&module)? {
                let rank = self.rank_of(&module)?;
                targets.insert(module, rank);
            }
        }
        if targets.is_empty() {
            let left_out = if self.excluded.is_some() || self.blocks.is_some() {
                ", without those that exclude_modules and layers_to_transform leave out,"
            } else {
                ""
            };
            let modules = quote(&self.targets.to_json().to_string());
            return Err(format!(
                "target_modules is {modules}, which{left_out} matches no linear layer of the model's blocks"
            ));
        }
        Ok(base.of_matrices(|name, shape| {
            let module = module_of_weight(name)?;
            let (rank, [a, b]) = (*targets.get(&module)?, matrix_names(&module));
            Some([(a, [rank, shape[1]]), (b, [shape[0], rank])])
        }))
    }
}

/// The block number of a module: 3 for `model.layers.3.mlp.up_proj`.
fn block_of(module: &str) -> Option<usize> {
    module.split('.').find_map(|part| part.parse().ok())
}

/// The value of the first pattern that matches a module, in file order.
fn first_match<T: Copy>(entries: &[(Pattern, T)], module: &str) -> Result<Option<T>, String> {
    for (pattern, value) in entries {
        if pattern.matches(module)? {
            return Ok(Some(*value));
        }
    }
    Ok(None)
}

/// Parses a rank of a file or setting.
pub(super) fn rank_of(value: &Value) -> Result<usize, String> {
    let rank = value.as_u64().and_then(|rank| usize::try_from(rank).ok());
    rank.filter(|rank| (1..=LoraConfig::MAX_RANK).contains(rank)).ok_or(format!(
        "expected a whole number from 1 to {}, not {}",
        LoraConfig::MAX_RANK,
        shown(Some(value))
    ))
}

/// A value, for messages.
pub(super) fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "not set".to_owned(), |value| quote(&value.to_string()))
}
