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

#[cfg(test)]
mod tests {
    use spag_game::taboo::LABELS;
    use spag_train::Span;
    use spag_train::loss::PolicyLossSettings;

    use super::*;
    use crate::run::stages::online::trajectories::Turns;

    /// A game of four turns, whose divergences are 1, 2, 4 and 8.
    fn rewards(kl_in: KlPlace) -> [Vec<f64>; 2] {
        let span = |divergence: f32| Span {
            sampling_log_probs: Some(vec![divergence - 9.0]),
            ref_token_log_probs: Some(vec![-9.0]),
            ..Span::new(0..1, 0.0)
        };
        let seat = |seat: usize, divergences: [f32; 2]| {
            let trajectory = Trajectory { row: 7, ids: vec![0], spans: divergences.map(span).to_vec() };
            (trajectory, Turns { seat: LABELS.seats[seat], turns: vec![seat, seat + 2] })
        };
        let (trajectories, turns) = [seat(0, [1.0, 4.0]), seat(1, [2.0, 8.0])].into_iter().unzip();
        let mut learned = Learned { trajectories, turns };
        let policy_loss = PolicyLossSettings { kl_coeff: 0.5, kl_in, ..PolicyLossSettings::default() };
        subtract(&OnlineSettings { policy_loss, ..OnlineSettings::default() }, &mut learned).unwrap();
        let of = |at: usize| learned.trajectories[at].spans.iter().map(|span| span.reward).collect();
        [of(0), of(1)]
    }

    #[test]
    fn in_a_zero_sum_game_the_other_seat_gains_what_one_loses() {
        assert_eq!(rewards(KlPlace::Loss), [[0.0, 0.0], [0.0, 0.0]]);
        assert_eq!(rewards(KlPlace::Reward), [[-0.5, -2.0], [-1.0, -4.0]]);
        // 1 − 2 + 4 − 8 and 4 − 8; 2 − 4 + 8 and 8.
        assert_eq!(rewards(KlPlace::ZeroSum), [[2.5, 2.0], [-3.0, -4.0]]);
    }
}
