//! What first utterances say about their games: a policy that collapses to a template says the same whatever its prompt is.

use spag_game::{Generation, Utterance};
use spag_selfplay::ModelPlayer;

use super::play::Played;
use crate::config::{OnlineSettings, Policies};
use crate::error::Result;

/// Tokens of an utterance that are scored, at most.
const MAX_TOKENS: usize = 24;

/// A lower bound of the information between prompts and first utterances, in nats (InfoNCE, van den Oord et al. 2018, arXiv
/// 1807.03748; as a measure of collapse arXiv 2604.06268): the mean over `games` games of ln p(u | x) − ln mean p(u | x′) over the
/// prompts x′ of all of them. It is at most ln `games`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Information {
    /// Over the games.
    pub(super) sum: f64,
    pub(super) games: f64,
}

/// Measures the first utterances of games that have different prompts, one a prompt, before the policy has learned from them. `None` if
/// there are none, as in a game that always begins alike.
pub(super) fn measure(
    settings: &OnlineSettings,
    player: &mut ModelPlayer,
    games: &[Played],
) -> Result<Option<Information>> {
    let mut first: Vec<(&[u32], &[u32])> = Vec::new();
    // Another policy may have the second seat.
    let is_of_player = |said: &Utterance| settings.policies == Policies::One || said.seat.index() == 0;
    for played in games {
        if first.len() == settings.signal.information_games {
            break;
        }
        let said = played
            .learned()
            .next()
            .filter(|(_, said)| is_of_player(said))
            .and_then(|(_, said)| said.generation.as_ref());
        let Some(Generation { token_ids, context: Some(context), .. }) = said else { continue };
        if !token_ids.is_empty() && first.iter().all(|(prompt, _)| *prompt != context.prompt) {
            first.push((&context.prompt, &token_ids[..token_ids.len().min(MAX_TOKENS)]));
        }
    }
    if first.len() < 2 {
        return Ok(None);
    }
    let pairs = first.iter().flat_map(|(_, said)| first.iter().map(move |(prompt, _)| (*prompt, *said)));
    let scores = player.token_log_probs(pairs)?;
    let count = first.len();
    let of_utterance = scores.chunks_exact(count).enumerate().map(|(own, scores)| {
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = scores.iter().map(|score| (score - most).exp()).sum::<f64>() / count as f64;
        scores[own] - most - mean.ln()
    });
    Ok(Some(Information { sum: of_utterance.sum(), games: count as f64 }))
}
