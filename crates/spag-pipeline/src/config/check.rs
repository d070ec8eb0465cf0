//! Combinations of the settings of a run.

use std::ops::RangeInclusive;

use spag_io::{PromptFormat, in_range};
use spag_selfplay::PromptStyle;

use super::run::RunConfig;
use super::sources::{SftShare, endpoint};
use crate::error::{Error, Result};

/// SFT samples per game sample.
const SFT_SHARE: RangeInclusive<f64> = 0.0..=100.0;

impl RunConfig {
    /// Checks values that depend on others in the same file.
    pub(super) fn check(&self) -> Result<()> {
        let bad = |setting, message| Err(Error::BadSetting { setting, message });
        if let SftShare::PerSample(share) = self.sft.share
            && let Err(expected) = in_range(share, SFT_SHARE)
        {
            return bad("sft.share", format!("{expected}, not {share}"));
        }
        let mut epochs = self.evaluation.epochs.iter().flatten();
        match epochs.find(|epoch| !(1..=self.epochs).contains(*epoch)) {
            Some(epoch) => {
                bad("evaluation.epochs", format!("epoch {epoch} does not exist; the run has 1 to {}", self.epochs))
            }
            None => Ok(()),
        }
    }

    /// Checks values that depend on others.
    pub(super) fn check_sources(&self) -> Result<()> {
        let bad = |(setting, message)| Error::BadSetting { setting, message };
        self.imitation.check_source().map_err(bad)?;
        self.check_games().map_err(bad)?;
        for (setting, player) in
            [("imitation.player", &self.imitation.player), ("self_play.player", &self.self_play.player)]
        {
            let Some(player) = player else { continue };
            let style = endpoint(setting, player)?.style;
            if self.prompt_format == PromptFormat::Chat && style == PromptStyle::Completion {
                let message = "these servers complete texts and take no messages; with prompt_format = \"chat\", write openai:URL#MODEL";
                return Err(bad((setting, message.to_owned())));
            }
        }
        if self.sft.file.is_none() && matches!(self.sft.share, SftShare::All(_)) {
            return Err(bad(("sft.share", "\"whole\" needs sft.file; the small world's texts have no end".to_owned())));
        }
        Ok(())
    }
}
