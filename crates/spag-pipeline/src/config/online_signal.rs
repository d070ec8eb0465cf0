//! What keeps an on-policy run learning, among the settings of `[online]`: which games it learns from, and what it stays near.

use std::path::PathBuf;

use super::online::OnlineSettings;
use crate::error::{Error, Result};

spag_io::settings! {
    /// Which games of an update are learned from, among the settings of `[online]`.
    pub table SignalSettings {
        /// Further batches of games that an update may play in place of groups whose rewards are all equal, from which nothing is
        /// learned, and of ties beyond `decisive_share`. With 0 such groups are kept.
        pub resample: usize [0..=100] = 0;
        /// Least share of groups with a decisive game among those that are learned from. Ties beyond it are left out.
        pub decisive_share: f64 [0.0..=1.0] = 0.0;
        /// Games of an update, on each rank, whose first utterances are scored under each other's prompts: `item_information` in
        /// `metrics.jsonl`, which falls to 0 if utterances stop depending on what the game is about. 0 measures nothing.
        pub information_games: usize [0..=64] = 0;
    }

    /// The model that the divergence is measured from, among the settings of `[online]`.
    pub table ReferenceSettings {
        /// Its folder; the model of the imitation if absent.
        pub reference_model: Option<PathBuf>;
        /// Updates after which the policy of that moment becomes the reference, again and again; it never does if absent.
        pub reference_updates: Option<usize> [1..=10_000_000];
    }
}

impl ReferenceSettings {
    /// The number of updates before the model that is the reference of update `update`; 0 is the first reference.
    pub(crate) fn of_update(&self, update: usize) -> usize {
        self.reference_updates.map_or(0, |every| update / every * every)
    }
}

impl OnlineSettings {
    /// Checks what games are left out, and that a reference is one.
    pub(super) fn check_signal(&self) -> Result<()> {
        let bad = |setting, message: &str| Err(Error::BadSetting { setting, message: message.to_owned() });
        if self.signal.resample > 0 && self.group_size == 1 && self.signal.decisive_share == 0.0 {
            let message = "a group of one game has no rewards to differ; set online.group_size to at least 2, or \
                           online.decisive_share above 0";
            return bad("online.resample", message);
        }
        if self.policy_loss.kl_coeff == 0.0 {
            let ReferenceSettings { reference_model, reference_updates } = &self.reference;
            let set = [
                ("online.reference_model", reference_model.is_some()),
                ("online.reference_updates", reference_updates.is_some()),
            ];
            if let Some((setting, _)) = set.into_iter().find(|(_, is_set)| *is_set) {
                return bad(setting, "no divergence is measured; set online.kl_coeff above 0, or remove it");
            }
        }
        Ok(())
    }
}
