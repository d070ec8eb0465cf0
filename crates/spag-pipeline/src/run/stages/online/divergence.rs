//! The divergence from the reference model as a part of rewards.

use spag_game::Seat;
use spag_train::Trajectory;
use spag_train::loss::KlPlace;

use super::trajectories::Learned;
use crate::config::OnlineSettings;
use crate::error::Result;

/// An utterance that is learned.
struct Utterance {
    /// Its place: trajectory and span.
    at: (usize, usize),
    game: usize,
    turn: usize,
    seat: Seat,
    divergence: f64,
}

/// Takes the divergences of utterances from the reference, times their coefficient, from the advantages, as `kl_in` says.
pub(super) fn subtract(settings: &OnlineSettings, learned: &mut Learned) -> Result<()> {
    let loss = &settings.policy_loss;
    if loss.kl_coeff == 0.0 || loss.kl_in == KlPlace::Loss {
        return Ok(());
    }
    let mut all = Vec::new();
    for (index, (trajectory, turns)) in learned.trajectories.iter().zip(&learned.turns).enumerate() {
        for (span_index, (span, turn)) in trajectory.spans.iter().zip(&turns.turns).enumerate() {
            let (game, seat, divergence) = (trajectory.row, turns.seat, span.divergence()?);
            all.push(Utterance { at: (index, span_index), game, turn: *turn, seat, divergence });
        }
    }
    all.sort_by_key(|utterance| (utterance.game, utterance.turn));
    let parts = all.chunk_by(|one, other| one.game == other.game);
    for game in parts {
        for (place, utterance) in game.iter().enumerate() {
            let sum: f64 = match loss.kl_in {
                KlPlace::Loss | KlPlace::Reward => utterance.divergence,
                KlPlace::ZeroSum => {
                    let sign = |other: &Utterance| if other.seat == utterance.seat { 1.0 } else { -1.0 };
                    game[place..].iter().map(|later| sign(later) * later.divergence).sum()
                }
            };
            reward_at(&mut learned.trajectories, utterance.at, -loss.kl_coeff * sum);
        }
    }
    Ok(())
}

fn reward_at(trajectories: &mut [Trajectory], (trajectory, span): (usize, usize), change: f64) {
    if let Some(span) = trajectories.get_mut(trajectory).and_then(|trajectory| trajectory.spans.get_mut(span)) {
        span.reward += change;
    }
}
