//! Whether the models of a run have room for its prompts.

use spag_game::{JudgeKind, PromptSet, Utterance};
use spag_io::PromptFormat;
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
    prompts: &PromptSet,
    judge: JudgeKind,
    word: &str,
    max_turns: usize,
    max_length: Option<usize>,
) -> Result<Vec<String>> {
    // The first prompt of the second seat also contains the first utterance, which is unknown.
    let [first, second] = judge.labels().seats;
    let opening = [Utterance::new(first, "")];
    let mut notes = Vec::new();
    for (role, history) in [(first, &[][..]), (second, &opening)] {
        let player = players.player(role);
        let budget = |word| player.context_budget(&prompts.playing_prompt(history, word, max_turns));
        // A word that the tokenizer cannot encode fails its own games.
        let Some((folder, budget)) = budget(word).or_else(|_| budget("a"))? else { continue };
        let cut = budget.cut();
        if cut > 0 && max_length.is_none_or(|asked| asked > budget.room()) {
            let (folder, word) = (folder.to_owned(), word.to_owned());
            return Err(PlayError::ContextTooShort { folder, role, word, budget }.into());
        }
        if cut > 0 && prompts.format() == PromptFormat::Chat {
            return Err(PlayError::ChatTooLong { role, budget }.into());
        }
        if cut > 0 {
            let tokens = budget.prompt;
            notes
                .push(format!("--max_length: the {role}'s first prompt has {tokens} tokens and loses the first {cut}"));
        }
    }
    Ok(notes)
}
