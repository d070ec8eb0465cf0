//! Whether the models of a run have room for its prompts.

use spag_game::{Episode, Game, GameSpec, Ruling, Seat};
use spag_io::TurnPrompt;
use spag_selfplay::PlayerPair;

use crate::error::PlayError;
use spag_cli::Result;

/// Rejects models whose context cannot hold the first prompt and an utterance. `word` is the longest target word. Returns
/// notes on prompts that only `max_length`, the flag, cuts.
///
/// # Errors
/// [`PlayError::ContextTooShort`], or [`PlayError::ChatTooLong`] if the flag would cut a chat.
pub(crate) fn check_context(
    players: &PlayerPair,
    game: &dyn Game,
    word: &str,
    max_turns: usize,
    max_length: Option<usize>,
) -> Result<Vec<String>> {
    let budgets = |word| -> Result<Vec<_>> {
        let prompts = first_prompts(game, word, max_turns)?.into_iter();
        prompts.map(|(seat, prompt)| Ok((seat, players.player(seat).context_budget(&prompt)?, prompt))).collect()
    };
    let mut notes = Vec::new();
    // A word that the tokenizer cannot encode fails its own games.
    for (seat, budget, prompt) in budgets(word).or_else(|_| budgets("a"))? {
        let Some((folder, budget)) = budget else { continue };
        let cut = budget.cut();
        if cut > 0 && max_length.is_none_or(|asked| asked > budget.room()) {
            let (folder, word) = (folder.to_owned(), word.to_owned());
            return Err(PlayError::ContextTooShort { folder, seat, word, budget }.into());
        }
        if cut > 0 && matches!(prompt, TurnPrompt::Chat(_)) {
            return Err(PlayError::ChatTooLong { seat, budget }.into());
        }
        if cut > 0 {
            let tokens = budget.prompt;
            notes
                .push(format!("--max_length: the {seat}'s first prompt has {tokens} tokens and loses the first {cut}"));
        }
    }
    Ok(notes)
}

/// The first prompts of a game. That of the second seat also contains the first utterance, which is unknown and taken as empty;
/// a game that refuses an empty one has only the first prompt.
fn first_prompts(game: &dyn Game, word: &str, max_turns: usize) -> Result<Vec<(Seat, TurnPrompt)>> {
    let mut state =
        game.start(&GameSpec { number: 0, item: word.to_owned(), max_turns, seed: 0, sampling_seed: None })?;
    let mut episode = Episode::new(word, max_turns);
    let first = state.to_move();
    let mut prompts = vec![(first, state.prompt(first, &episode))];
    if state.apply("") == Ruling::ACCEPTED {
        episode.push(first, "");
        prompts.push((state.to_move(), state.prompt(state.to_move(), &episode)));
    }
    Ok(prompts)
}
