//! The control arms of a run: the same run without a part of what should make its model better.

use std::path::PathBuf;

use spag_rewards::CreditRule;
use spag_run::{Model, files};

use super::online::RunMethod;
use super::online_choices::Control;
use super::run::RunConfig;
use super::sources::{ImitationSettings, ImitationSource, ImitationSources};
use crate::error::{Error, Result};

/// A run from the imitation model of another one that differs from it in what it learns from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlArm {
    /// The winners of games are drawn: what play and steps alone do.
    RandomWinner,
    /// Rounds of general text alone, in as many steps: what further training does.
    GeneralText,
}

impl ControlArm {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 2] = [Self::RandomWinner, Self::GeneralText];

    /// Its name in tables, which is that of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::RandomWinner => "random-winner",
            Self::GeneralText => "general-text",
        }
    }

    /// What it is, for people who wait for it.
    pub fn title(self) -> &'static str {
        match self {
            Self::RandomWinner => "the winners of games are drawn",
            Self::GeneralText => "general text alone, in as many steps",
        }
    }
}

impl RunConfig {
    /// Checks that control arms can be made of this run and compared with it.
    ///
    /// # Errors
    /// [`Error::BadSetting`] without benchmarks, rounds or general text, for a run that is a control itself, and for credit that is
    /// not the winner's.
    pub fn check_controls(&self) -> Result<()> {
        let bad = |setting, message: &str| Err(Error::BadSetting { setting, message: message.to_owned() });
        if self.benchmarks.is_none() {
            return bad("benchmarks", "controls are compared in benchmarks; add a table [benchmarks]");
        }
        if self.epochs == 0 {
            return bad("epochs", "a run without rounds has no controls; set it to 1 or more");
        }
        let is_control = self.online.as_ref().is_some_and(|online| online.control.is_some());
        if is_control || !self.sft.alone.is_empty() {
            return bad("online.control", "this run is a control itself; remove online.control and sft.alone");
        }
        if self.method == RunMethod::Offline && self.rewards.credit != CreditRule::Winner {
            return bad("rewards.credit", "the control with drawn winners is made for credit = \"winner\"; set it");
        }
        if self.sft.file.is_none() && !self.uses_small_world() {
            return bad("sft.file", "the control that trains on general text needs a file of it");
        }
        Ok(())
    }

    /// The folder of a control arm, in that of the run.
    pub(crate) fn arm_dir(&self, arm: ControlArm) -> PathBuf {
        self.run_dir.join(files::CONTROLS).join(arm.name())
    }

    /// A control arm of this run. `rows` are those of each round of general text.
    pub(crate) fn arm(&self, arm: ControlArm, rows: &[usize]) -> Self {
        let mut config = Self {
            run_dir: self.arm_dir(arm),
            base_model: self.folder_of(Model::Im),
            imitation: ImitationSettings {
                source: ImitationSources::One(ImitationSource::None),
                ..ImitationSettings::default()
            },
            // The run has its benchmarks.
            benchmarks: None,
            ..self.clone()
        };
        config.evaluation.epochs = Some(vec![self.epochs]);
        match (arm, &mut config.online) {
            (ControlArm::RandomWinner, Some(online)) => online.control = Some(Control::RandomWinner),
            (ControlArm::RandomWinner, None) => config.rewards.credit = CreditRule::Drawn,
            (ControlArm::GeneralText, _) => {
                (config.method, config.online) = (RunMethod::Offline, None);
                config.sft.alone = rows.to_vec();
            }
        }
        config
    }
}
