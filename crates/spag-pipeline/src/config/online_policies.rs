//! What runs with a policy for each seat can be, among the checks of `[online]`.

use spag_train::TrainConfig;

use super::online::OnlineSettings;
use super::online_choices::{Control, Opponent, Policies};
use crate::error::{Error, Result};

impl OnlineSettings {
    /// Checks that the settings are of a run with two policies, if they ask for them. `train` are those of both learners.
    pub(super) fn check_policies(&self, train: &TrainConfig) -> Result<()> {
        let bad = |message: &str| {
            let message = format!("two policies {message}");
            Err(Error::BadSetting { setting: "online.policies", message })
        };
        match (self.policies, self.control, self.opponents.opponent) {
            (Policies::One, ..) => Ok(()),
            (Policies::Seats, ..) if train.lora_r.is_none() => {
                bad("are adapters over the model of the imitation; set train.lora_r, or policies = \"one\"")
            }
            (Policies::Seats, Some(Control::SftOnly), _) => bad(
                "play the games that they learn from, and with control = \"sft_only\" the model of the imitation does; leave \
                     one of them out",
            ),
            (Policies::Seats, _, Opponent::Fixed | Opponent::Pool | Opponent::Scripted) => {
                bad("play against each other; leave online.opponent out")
            }
            (Policies::Seats, None | Some(Control::RandomWinner), Opponent::Policy) => Ok(()),
        }
    }
}
