//! Sequences of tokens to learn from: one for each seat of a game, as far as its prompts are one growing sequence.

use spag_model::generate::FinishReason;
use spag_selfplay::SampledTurn;
use spag_train::{Span, Trajectory};

use super::play::Played;

/// The trajectories of games with the advantages of their utterances. Utterances without an advantage are context only.
pub(super) fn of(games: &[Played], advantages: &[Vec<Option<f64>>]) -> Vec<Trajectory> {
    let mut all = Vec::new();
    for (played, advantages) in games.iter().zip(advantages) {
        let own =
            || played.turns.iter().zip(advantages).filter_map(|(turn, advantage)| Some((turn.as_ref()?, advantage)));
        let mut seats: Vec<usize> = own().map(|(turn, _)| turn.seat.index()).collect();
        seats.sort_unstable();
        seats.dedup();
        for seat in seats {
            let turns = own().filter(|(turn, _)| turn.seat.index() == seat);
            all.extend(of_seat(played.game.number, turns));
        }
    }
    all
}

/// The trajectories of a seat of a game.
fn of_seat<'a>(
    game: usize,
    turns: impl Iterator<Item = (&'a SampledTurn, &'a Option<f64>)>,
) -> impl Iterator<Item = Trajectory> {
    let mut all: Vec<Trajectory> = Vec::new();
    for (turn, advantage) in turns {
        let ids = &turn.generation.token_ids;
        // A token that ended the utterance is predicted, and no context of later turns.
        let ended = matches!(turn.finish, FinishReason::Eos | FinishReason::StopToken);
        let (context, leaf) = match ids.split_last() {
            Some((last, rest)) if ended && !rest.is_empty() => (rest, Some(*last)),
            _ => (&ids[..], None),
        };
        let grown = all.last_mut().filter(|trajectory| turn.prompt.starts_with(&trajectory.ids));
        let trajectory = match grown {
            Some(trajectory) => trajectory,
            None => {
                all.push(Trajectory { row: game, ids: Vec::new(), spans: Vec::new() });
                let Some(last) = all.last_mut() else { continue };
                last
            }
        };
        trajectory.ids.clone_from(&turn.prompt);
        let start = trajectory.ids.len();
        trajectory.ids.extend(context);
        if let (Some(advantage), false) = (advantage, ids.is_empty()) {
            let (sampling_log_probs, distributions) = (Some(turn.log_probs()), turn.distributions.clone());
            let span = Span::new(start..trajectory.ids.len(), *advantage);
            trajectory.spans.push(Span { leaf, sampling_log_probs, distributions, ..span });
        }
    }
    all.into_iter().filter(|trajectory| !trajectory.spans.is_empty())
}
