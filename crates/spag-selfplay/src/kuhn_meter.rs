//! The exact meter of a model that plays Kuhn poker.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use spag_game::games::kuhn_poker::{KuhnPolicy, LABELS, Stakes};
use spag_game::{Episode, Game, games::BestActions};
use spag_io::TurnPrompt;

use crate::error::{Error, Result};
use crate::model_player::ModelPlayer;

/// The cards, from jack to king, as a player's private state has them.
const CARDS: [&str; 3] = ["J", "Q", "K"];
/// Seeds that are tried until a card has been dealt to a player.
const SEEDS: u64 = 1000;
/// The decisions of a round: what was said before, and the cautious and the bold action.
const DECISIONS: [(&[&str], [&str; 2]); 4] = [
    (&[], ["[check]", "[bet]"]),
    (&["[check]", "[bet]"], ["[fold]", "[call]"]),
    (&["[check]"], ["[check]", "[bet]"]),
    (&["[bet]"], ["[fold]", "[call]"]),
];

/// How a model plays the first round of a match of Kuhn poker, and what a perfect opponent makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KuhnMeter {
    /// The probability of a bet or call among the two legal actions, with each card from jack to king: who begins; who began
    /// with a check and is bet at; who answers a check; who answers a bet.
    pub bold: [[f64; 3]; 4],
    /// Chips a round, half of what best responses to both seats win together: 0 for an equilibrium.
    pub exploitability: f64,
    /// The mean reward, from −1 to 1, of a best responder in a match, in both seats together, if the model plays each round
    /// as the first. In older files it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_value: Option<f64>,
    /// The mean probability of answers that are no legal action, over the twelve decisions.
    pub invalid: f64,
}

impl KuhnMeter {
    /// Measures a model in `game`, at temperature 1 over all tokens.
    ///
    /// # Errors
    /// The game is not Kuhn poker, or the model cannot read a prompt of it.
    pub fn of(player: &mut ModelPlayer, game: &dyn Game) -> Result<Self> {
        if game.labels().name != LABELS.name {
            return Err(Error::NotKuhnPoker { game: game.labels().name });
        }
        let mut turns = Vec::new();
        for (said, actions) in DECISIONS {
            for card in CARDS {
                turns.push((prompt(game, said, card)?, actions.map(str::to_owned).to_vec()));
            }
        }
        let log_probs = player.action_log_probs(&turns)?;
        let (mut bold, mut legal) = ([[0.0; 3]; 4], 0.0);
        for (at, probs) in log_probs.iter().enumerate() {
            let [cautious, other] = probs[..] else { continue };
            legal += cautious.exp() + other.exp();
            // By the difference, so that two hardly possible actions have a ratio.
            bold[at / CARDS.len()][at % CARDS.len()] = 1.0 / (1.0 + (cautious - other).exp());
        }
        let [open_bet, checked_call, answer_bet, answer_call] = bold;
        let counts = game.settings().get("bets_count").is_some_and(|counts| counts == true);
        let stakes = if counts { Stakes::Bets } else { Stakes::Flat };
        let policy = KuhnPolicy { open_bet, checked_call, answer_bet, answer_call };
        let rounds = BestActions::start(game, 0)?.public_state().get("rounds").and_then(Value::as_u64).unwrap_or(1);
        let by_last_round = game.settings().get("winner").is_some_and(|winner| winner == "last_round");
        let value = |player| match by_last_round {
            true => policy.last_round_value(player, rounds, stakes),
            false => policy.match_value(player, rounds, stakes),
        };
        Ok(Self {
            bold,
            exploitability: policy.exploitability(stakes),
            match_value: Some((value(0) + value(1)) / 2.0),
            invalid: 1.0 - legal / turns.len() as f64,
        })
    }
}

/// The prompt of a player with a card after these actions of the first round.
fn prompt(game: &dyn Game, said: &[&str], card: &str) -> Result<TurnPrompt> {
    for seed in 0..SEEDS {
        let mut state = BestActions::start(game, seed)?;
        let mut episode = Episode::new("", 0);
        for action in said {
            let seat = state.to_move();
            state.apply(action);
            episode.push(seat, *action);
        }
        let seat = state.to_move();
        if state.private_state(seat).get("card").is_some_and(|dealt| dealt == card) {
            return Ok(state.prompt(seat, &episode));
        }
    }
    Err(Error::NotKuhnPoker { game: game.labels().name })
}
