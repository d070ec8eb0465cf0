//! The exact meters of games.

use serde::{Deserialize, Serialize};
use spag_game::Game;
use spag_game::games::kuhn_poker;

use crate::error::Result;
use crate::kuhn_meter::KuhnMeter;
use crate::model_player::ModelPlayer;
use crate::solved_meter::{MeterSize, SolvedMeter};

/// How good a model is in a game, compared with perfect play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GameMeter {
    /// Kuhn poker.
    Kuhn(KuhnMeter),
    /// A game that is solved.
    Solved(SolvedMeter),
}

impl GameMeter {
    /// Measures a model in `game`; `None` for a game without a meter.
    ///
    /// # Errors
    /// The model cannot read a prompt of the game, or cannot go on.
    pub fn of(player: &mut ModelPlayer, game: &dyn Game, size: MeterSize) -> Result<Option<Self>> {
        if game.labels().name == kuhn_poker::LABELS.name {
            return Ok(Some(Self::Kuhn(KuhnMeter::of(player, game)?)));
        }
        Ok(SolvedMeter::of(player, game, size)?.map(Self::Solved))
    }

    /// Whether a game has a meter.
    ///
    /// # Errors
    /// The game cannot be started.
    pub fn exists_for(game: &dyn Game) -> Result<bool> {
        Ok(game.labels().name == kuhn_poker::LABELS.name || spag_game::games::BestActions::of(game)?.is_some())
    }

    /// The mean probability of answers that are no legal action.
    pub fn invalid(&self) -> f64 {
        match self {
            Self::Kuhn(meter) => meter.invalid,
            Self::Solved(meter) => meter.invalid,
        }
    }
}
