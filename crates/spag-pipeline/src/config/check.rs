//! Combinations of the settings of a run.

use std::ops::RangeInclusive;

use spag_io::{PromptFormat, in_range};
use spag_selfplay::{EndpointSpec, PromptStyle};

use super::online::{OnlineSettings, RunMethod};
use super::run::RunConfig;
use super::sources::{SftShare, endpoint};
use crate::error::{Error, Result};

/// SFT samples per game sample.
const SFT_SHARE: RangeInclusive<f64> = 0.0..=100.0;
/// Rows of a round of general text alone.
const ROUND_ROWS: RangeInclusive<usize> = 1..=1_000_000_000;

impl RunConfig {
    /// Checks values that depend on others in the same file.
    pub(super) fn check(&self) -> Result<()> {
        let bad = |setting, message| Err(Error::BadSetting { setting, message });
        if let SftShare::PerSample(share) = self.sft.share
            && let Err(expected) = in_range(share, SFT_SHARE)
        {
            return bad("sft.share", format!("{expected}, not {share}"));
        }
        for (setting, train) in [("train", &self.train), ("imitation.train", &self.imitation.train)] {
            train.config.check().or_else(|error| bad(setting, error.to_string()))?;
        }
        self.check_online()?;
        self.check_text_alone()?;
        let mut epochs = self.evaluation.epochs.iter().flatten();
        let last = match (self.method, &self.online) {
            (RunMethod::Online, online) => online.clone().unwrap_or_default().parts(),
            (RunMethod::Offline, _) => self.epochs,
        };
        match epochs.find(|epoch| !(1..=last).contains(*epoch)) {
            Some(epoch) => bad("evaluation.epochs", format!("epoch {epoch} does not exist; the run has 1 to {last}")),
            None => Ok(()),
        }
    }

    /// Checks the rows of rounds without games.
    fn check_text_alone(&self) -> Result<()> {
        let rows = &self.sft.alone;
        let message = match self.method {
            _ if rows.is_empty() => return Ok(()),
            RunMethod::Online => "an on-policy run has games in every update; remove it".to_owned(),
            RunMethod::Offline if rows.len() != self.epochs => {
                format!("{} rounds have a number of rows, of epochs = {}; write one for each", rows.len(), self.epochs)
            }
            RunMethod::Offline => match rows.iter().find(|rows| !ROUND_ROWS.contains(rows)) {
                Some(rows) => format!("a round has 1 to {} rows, not {rows}", ROUND_ROWS.end()),
                None => return Ok(()),
            },
        };
        Err(Error::BadSetting { setting: "sft.alone", message })
    }

    /// Checks the settings of an on-policy run.
    fn check_online(&self) -> Result<()> {
        let bad = |setting, message: &str| Err(Error::BadSetting { setting, message: message.to_owned() });
        let online = match (self.method, &self.online) {
            (RunMethod::Offline, None) => return Ok(()),
            (RunMethod::Offline, Some(_)) => {
                return bad("method", "[online] is of runs with method = \"online\"; set it, or remove the table");
            }
            (RunMethod::Online, online) => online.clone().unwrap_or_default(),
        };
        if self.self_play.player.is_some() {
            return bad("self_play.player", "an on-policy run plays with its own weights; remove it");
        }
        if self.self_play.constrain_actions {
            let problem =
                "an on-policy run learns from what its own distribution draws, without a language around it; remove it";
            return bad("self_play.constrain_actions", problem);
        }
        if self.self_play.play_on {
            return bad("self_play.play_on", "an on-policy run ends a game when it is decided; remove it");
        }
        if let (Some(format), crate::GapRule::Stop) = (self.train.config.quantize, online.log_prob_gap) {
            return Err(Error::BadSetting {
                setting: "train.quantize",
                message: format!(
                    "weights in {format} do not compute the same log-probabilities when games are played as when they are learned \
                     from; remove it, or set online.log_prob_gap = \"report\", with a loss that corrects for the difference"
                ),
            });
        }
        if self.stop_when.least_item_information.is_some() && online.signal.information_games == 0 {
            let problem =
                "the information is not measured; set online.information_games to at least 2, or remove the rule";
            return bad("stop_when.least_item_information", problem);
        }
        if online.policy_loss.sft_coeff > 0.0 && !matches!(self.sft.share, SftShare::PerSample(share) if share > 0.0) {
            let problem = "online.sft_coeff weighs rows of general text for each utterance that is learned; set their number, \
                           such as 0.25, or remove online.sft_coeff";
            return bad("sft.share", problem);
        }
        online.check_policies(&self.train.config)?;
        online.check()
    }

    /// Checks values that depend on others.
    pub(super) fn check_sources(&self) -> Result<()> {
        let bad = |(setting, message)| Error::BadSetting { setting, message };
        self.imitation.check_source().map_err(bad)?;
        self.check_games().map_err(bad)?;
        self.reasoning.check(self.prompt_format).map_err(spag_selfplay::Error::from)?;
        let mut endpoints = Vec::new();
        for (setting, player) in
            [("imitation.player", &self.imitation.player), ("self_play.player", &self.self_play.player)]
        {
            endpoints
                .extend(player.as_ref().map(|player| endpoint(setting, player)).transpose()?.map(|one| (setting, one)));
        }
        let opponent = self.online.as_ref().map(OnlineSettings::opponent_endpoint).transpose()?.flatten();
        endpoints.extend(opponent.map(|opponent| ("online.opponent_model", opponent)));
        for (setting, EndpointSpec { style, .. }) in endpoints {
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
