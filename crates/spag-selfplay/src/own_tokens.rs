//! The tokens of a player's own utterances in its later prompts.

use spag_chat::{PromptEncoder, PromptHistory};
use spag_game::{Generation, Said, TurnContext};
use spag_io::{PromptEnd, ReasoningRule};

/// What later prompts show of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The utterance alone.
    Alone,
    /// The reasoning before it, too.
    WithReasoning,
}

/// Records in the history of a seat what it said, with the sampled tokens of what later prompts show. Tokens that are not just that
/// text are left out; it is then encoded anew.
///
/// # Errors
/// The tokens cannot be decoded.
pub(crate) fn record(
    history: &mut PromptHistory,
    encoder: &PromptEncoder,
    (said, prompt, shown): (&Said, PromptEnd, Shown),
    (context, generation): (&TurnContext, &Generation),
) -> spag_chat::Result<()> {
    let Some(ids) = context.of_text(&generation.token_ids) else { return Ok(()) };
    match shown {
        Shown::Alone => match after_reasoning(encoder, ids, generation.reasoning_tokens)? {
            Some(ids) => history.said(encoder.tokenizer(), &said.text, ids.to_vec()),
            None => Ok(()),
        },
        Shown::WithReasoning => {
            let form = encoder.reasoning_form(context.rule.prompts())?;
            let text = form.map(|form| form.completion(prompt, said.reasoning.as_deref(), &said.text).into_text());
            history.said(encoder.tokenizer(), text.as_deref().unwrap_or(&said.text), ids.to_vec())
        }
    }
}

/// The tokens after `reasoning` tokens and blanks, if the closing tag ends with one of them.
fn after_reasoning<'a>(
    encoder: &PromptEncoder,
    ids: &'a [u32],
    reasoning: usize,
) -> spag_chat::Result<Option<&'a [u32]>> {
    let ReasoningRule::Think(tags) = encoder.reasoning() else { return Ok(Some(ids)) };
    if reasoning == 0 {
        return Ok(Some(ids));
    }
    let Some((before, said)) = ids.split_at_checked(reasoning) else { return Ok(None) };
    let tokenizer = encoder.tokenizer();
    if !tokenizer.decode_with_special(before)?.trim_end().ends_with(tags.close()) {
        return Ok(None);
    }
    for at in 0..said.len() {
        if !tokenizer.decode(&said[..=at])?.trim().is_empty() {
            return Ok(Some(&said[at..]));
        }
    }
    Ok(Some(&[]))
}
