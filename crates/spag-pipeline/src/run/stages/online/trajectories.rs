//! Sequences of tokens to learn from: one for each seat of a game, as far as its prompts are one growing sequence.

use spag_game::{Generation, SEATS, Seat, TurnContext, UtteranceEnd};
use spag_rewards::{Advantages, RewardedGame};
use spag_selfplay::ModelPlayer;
use spag_train::{Span, Trajectory};

use super::play::Played;
use crate::error::Result;

/// The trajectories of games, and where in them their spans were said.
#[derive(Default)]
pub(super) struct Learned {
    pub(super) trajectories: Vec<Trajectory>,
    /// Of each trajectory.
    pub(super) turns: Vec<Turns>,
}

impl Learned {
    /// Puts the trajectories of the first seat before those of the second, in their order. Returns the number of the first seat's.
    pub(super) fn sort_by_seat(&mut self) -> usize {
        let mut all: Vec<(Trajectory, Turns)> = self.trajectories.drain(..).zip(self.turns.drain(..)).collect();
        all.sort_by_key(|(_, turns)| turns.seat.index());
        let firsts = all.partition_point(|(_, turns)| turns.seat.index() == 0);
        (self.trajectories, self.turns) = all.into_iter().unzip();
        firsts
    }
}

/// The utterances that are the spans of a trajectory.
pub(super) struct Turns {
    pub(super) seat: Seat,
    /// Their places in the game.
    pub(super) turns: Vec<usize>,
}

/// The trajectories of games of `player`, with the advantages of their utterances among those of all ranks' games. Utterances without
/// an advantage are context only. Games that are not among those of all ranks are left out.
pub(super) fn of(
    player: &mut ModelPlayer,
    games: &[Played],
    (all_ranks, advantages): (&[(usize, RewardedGame)], &Advantages),
) -> Result<Learned> {
    let mut all = Learned::default();
    for played in games {
        let Ok(index) = all_ranks.binary_search_by_key(&played.game.number, |(number, _)| *number) else { continue };
        for seat in 0..SEATS {
            let mut grown: Vec<(Trajectory, Turns)> = Vec::new();
            for (at, said) in played.learned().filter(|(_, said)| said.seat.index() == seat) {
                let advantage = advantages.of_turn(index, at);
                let Some(generation) = &said.generation else { continue };
                let Some(context) = &generation.context else { continue };
                add(player, &mut grown, (played.game.number, said.seat, at, advantage), (generation, context))?;
            }
            for (trajectory, turns) in grown.into_iter().filter(|(trajectory, _)| !trajectory.spans.is_empty()) {
                all.trajectories.push(trajectory);
                all.turns.push(turns);
            }
        }
    }
    Ok(all)
}

/// Adds an utterance to the trajectories of its seat in a game.
fn add(
    player: &mut ModelPlayer,
    all: &mut Vec<(Trajectory, Turns)>,
    (game, seat, turn, advantage): (usize, Seat, usize, Option<f64>),
    (generation, TurnContext { prompt, rule, end }): (&Generation, &TurnContext),
) -> Result<()> {
    let Generation { token_ids, sampling_log_probs, forced_tokens, .. } = generation;
    // A token that ended the utterance is predicted, and no context of later turns.
    let (context, leaf) = match token_ids.split_last() {
        Some((last, rest)) if *end == UtteranceEnd::Token && !rest.is_empty() => (rest, Some(*last)),
        _ => (&token_ids[..], None),
    };
    if !all.last().is_some_and(|(trajectory, _)| prompt.starts_with(&trajectory.ids)) {
        all.push((Trajectory { row: game, ids: Vec::new(), spans: Vec::new() }, Turns { seat, turns: Vec::new() }));
    }
    let Some((trajectory, turns)) = all.last_mut() else { return Ok(()) };
    trajectory.ids.clone_from(prompt);
    trajectory.ids.extend(context);
    if let (Some(advantage), false) = (advantage, token_ids.is_empty()) {
        let mut distributions = player.distributions(*rule, token_ids.len())?;
        let mut sampling_log_probs = sampling_log_probs.clone();
        // Forced tokens were not sampled.
        let forced = forced_tokens.start.min(context.len())..forced_tokens.end.min(context.len());
        sampling_log_probs.drain(forced.clone());
        if let Some(distributions) = &mut distributions {
            distributions.drain(forced.clone());
        }
        let span = Span::new(prompt.len()..trajectory.ids.len(), advantage);
        let (context, sampling_log_probs) =
            (prompt.len() + forced.start..prompt.len() + forced.end, Some(sampling_log_probs));
        turns.turns.push(turn);
        trajectory.spans.push(Span { context, leaf, sampling_log_probs, distributions, ..span });
    }
    Ok(())
}
