//! The settings of a run that starts with an adapter of a folder.

use std::path::Path;

use spag_model::adapter::LoraConfig;
use spag_model::checkpoint::load_config;
use spag_model::params::AdapterPlaces;

use super::TrainJob;
use crate::config::{TargetModules, TrainConfig};
use crate::error::{Error, Result};

impl TrainJob {
    /// The settings with those of the first adapter, if the job names one. Rank and modules are those that plans of memory need: the
    /// largest rank, and the names of all modules where the adapter has a regular expression.
    ///
    /// # Errors
    /// An adapter that cannot be read or does not fit the model, or settings that contradict it.
    pub(super) fn resolved_config(&self) -> Result<TrainConfig> {
        let Some(folder) = &self.adapter else { return Ok(self.config.clone()) };
        let lora = LoraConfig::load(folder)?;
        check_settings(&self.config, &lora, folder)?;
        let places = AdapterPlaces::new(&lora, &load_config(&self.model_name_or_path)?.architecture);
        let fit = |reason| spag_model::Error::Adapter { path: folder.clone(), reason };
        let places = places.map_err(fit)?;
        let modules = lora.module_names().unwrap_or_else(|| places.modules());
        Ok(TrainConfig {
            lora_r: Some(places.max_rank()),
            lora_alpha: lora.alpha(),
            lora_target_modules: TargetModules::of(modules),
            ..self.config.clone()
        })
    }
}

/// Compares the settings that are given with those of an adapter.
fn check_settings(config: &TrainConfig, lora: &LoraConfig, folder: &Path) -> Result<()> {
    let differs = |name, given: String, own: String| {
        let folder = folder.display();
        let reason = format!(
            "it is {given}, but the adapter of --adapter {folder} has {own}; leave it out to train this adapter"
        );
        Err(Error::Setting { name, reason })
    };
    if let Some(rank) = config.lora_r.filter(|rank| *rank != lora.rank()) {
        return differs("lora_r", rank.to_string(), lora.rank().to_string());
    }
    if config.lora_alpha != TrainConfig::default().lora_alpha && config.lora_alpha != lora.alpha() {
        return differs("lora_alpha", config.lora_alpha.to_string(), lora.alpha().to_string());
    }
    let Some(given) = config.lora_target_modules.names() else { return Ok(()) };
    let sorted = |mut names: Vec<String>| {
        names.sort_unstable();
        names
    };
    match lora.module_names() {
        Some(own) if sorted(own.clone()) == sorted(given.to_vec()) => Ok(()),
        Some(own) => differs("lora_target_modules", given.join(" "), own.join(" ")),
        None => differs("lora_target_modules", given.join(" "), "a regular expression".to_owned()),
    }
}
