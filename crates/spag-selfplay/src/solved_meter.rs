//! The meter of a model in games that are solved: tic-tac-toe, Nim and small Connect Four.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use spag_game::INVALID;
use spag_game::games::BestActions;
use spag_game::{CollectedGames, Episode, Game, GameSpec, PlayConfig, SEATS, Seat, Seats, game_seed, play_games};
use spag_io::TurnPrompt;

use crate::error::Result;
use crate::model_player::ModelPlayer;

/// The seed of positions and games, which are the same for every model.
const SEED: u64 = 0x5eed_0fb0_a4d5;
/// Random games without a new position after which no more are looked for.
const MAX_IDLE_GAMES: usize = 1000;

/// Legal actions of all positions together, after which no more positions are taken: each action is scored.
const MAX_ACTIONS: usize = 4096;

/// How many positions and games a model is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterSize {
    /// Positions, at most.
    pub positions: usize,
    /// Games against a perfect player in each seat.
    pub games: usize,
}

impl Default for MeterSize {
    fn default() -> Self {
        Self { positions: 256, games: 100 }
    }
}

/// How a model plays a solved game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolvedMeter {
    /// The positions of the next three numbers: distinct ones of random games in which some action is a mistake. They are the
    /// same for every model.
    pub positions: usize,
    /// The mean probability of the actions that keep the value of the position, among the legal ones.
    pub optimal: f64,
    /// The same of a player that chooses any legal action.
    pub optimal_by_chance: f64,
    /// The mean probability of answers that are no legal action.
    pub invalid: f64,
    /// Games against a perfect player, with the model in the first and in the second seat.
    pub against_perfect: [SeatResults; SEATS],
}

/// The games of a model in one seat. Their sum is the number of games.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatResults {
    /// Won by the model.
    pub won: usize,
    /// Drawn.
    pub drawn: usize,
    /// Lost by the rules.
    pub lost: usize,
    /// Lost by refused actions.
    pub refused: usize,
}

impl SeatResults {
    /// All games.
    pub fn games(&self) -> usize {
        self.won + self.drawn + self.lost + self.refused
    }
}

/// A position with the turn that a player has in it.
struct Decision {
    prompt: TurnPrompt,
    legal: Vec<String>,
    best: Vec<String>,
}

impl SolvedMeter {
    /// Measures a model in `game`; `None` if the game is not solved, or no move of it is a mistake. Probabilities are those at temperature 1 over all tokens;
    /// the games are played with the player's own settings.
    ///
    /// # Errors
    /// The model cannot read a prompt of the game, or cannot go on.
    pub fn of(player: &mut ModelPlayer, game: &dyn Game, size: MeterSize) -> Result<Option<Self>> {
        let Some(mut best) = BestActions::of(game)? else { return Ok(None) };
        let decisions = decisions(game, &mut best, size.positions)?;
        if decisions.is_empty() {
            return Ok(None);
        }
        let turns: Vec<_> =
            decisions.iter().map(|decision| (decision.prompt.clone(), decision.legal.clone())).collect();
        let (mut optimal, mut by_chance, mut legal) = (0.0, 0.0, 0.0);
        for (decision, log_probs) in decisions.iter().zip(player.action_log_probs(&turns)?) {
            legal += log_probs.iter().map(|log_prob| log_prob.exp()).sum::<f64>();
            // Relative to the largest, so that hardly possible actions have a share.
            let largest = log_probs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weight = |log_prob: f64| (log_prob - largest).exp();
            let all: f64 = log_probs.iter().copied().map(weight).sum();
            let of_best = decision.legal.iter().zip(&log_probs).filter(|(action, _)| decision.best.contains(action));
            optimal += of_best.map(|(_, log_prob)| weight(*log_prob)).sum::<f64>() / all;
            by_chance += decision.best.len() as f64 / decision.legal.len() as f64;
        }
        let count = decisions.len() as f64;
        let [first, second] = game.labels().seats;
        let against_perfect = [
            against_perfect(player, game, &best, first, size.games)?,
            against_perfect(player, game, &best, second, size.games)?,
        ];
        Ok(Some(Self {
            positions: decisions.len(),
            optimal: optimal / count,
            optimal_by_chance: by_chance / count,
            invalid: 1.0 - legal / count,
            against_perfect,
        }))
    }
}

/// The first distinct positions of random games in which some action is a mistake.
fn decisions(game: &dyn Game, best: &mut BestActions, count: usize) -> Result<Vec<Decision>> {
    let (mut known, mut found, mut idle) = (HashSet::new(), Vec::new(), 0);
    let (mut number, mut actions) = (0, 0);
    let is_enough = |found: &Vec<Decision>, actions| found.len() >= count || actions >= MAX_ACTIONS;
    while !is_enough(&found, actions) && idle < MAX_IDLE_GAMES {
        let before = found.len();
        let mut state = BestActions::start(game, 0)?;
        let mut episode = Episode::new("", 0);
        let mut seed = game_seed(SEED, number);
        while let Some(legal) = state.legal_actions().filter(|legal| !legal.is_empty()) {
            let seat = state.to_move();
            let position = (seat.index(), Value::from(state.public_state()).to_string());
            if !is_enough(&found, actions) && known.insert(position) {
                let best = best.in_state(&*state);
                if best.len() < legal.len() {
                    actions += legal.len();
                    found.push(Decision { prompt: state.prompt(seat, &episode), legal: legal.clone(), best });
                }
            }
            seed = game_seed(seed, 1);
            let action = &legal[(seed % legal.len() as u64) as usize];
            state.apply(action);
            episode.push(seat, action.as_str());
        }
        idle = if found.len() > before { 0 } else { idle + 1 };
        number += 1;
    }
    Ok(found)
}

/// The games of a model in `seat` against a perfect player. Both choose by the seeds of the games.
fn against_perfect(
    player: &mut ModelPlayer,
    game: &dyn Game,
    best: &BestActions,
    seat: Seat,
    count: usize,
) -> Result<SeatResults> {
    let mut perfect = best.clone().player(game);
    let seats = match seat.index() {
        0 => Seats::Versus([player, &mut perfect]),
        _ => Seats::Versus([&mut perfect, player]),
    };
    let base = game_seed(SEED, seat.index());
    let spec = |number| GameSpec {
        number,
        item: String::new(),
        max_turns: 0,
        seed: game_seed(base, number),
        sampling_seed: None,
    };
    let mut games = CollectedGames::default();
    play_games(game, (0..count).map(spec), seats, &PlayConfig::default(), &mut games)?;
    let mut results = SeatResults::default();
    for verdict in games.finished.iter().map(|game| &game.verdict) {
        *match verdict.winner() {
            None => &mut results.drawn,
            Some(winner) if winner == seat => &mut results.won,
            Some(_) if verdict.ending == INVALID => &mut results.refused,
            Some(_) => &mut results.lost,
        } += 1;
    }
    Ok(results)
}
