//! Samples to tokens: `bos + query + target + eos`, with BOS if prompts begin with it, query and target encoded apart, the last tokens kept.
//!
//! Texts of a game are encoded as they were played: what a player says never becomes a special token. Texts to imitate are
//! encoded as in the reference, with special tokens matched. Messages are encoded by the model's chat template.

use rayon::prelude::*;
use spag_chat::PromptEncoder;
use spag_io::{PromptEnd, PromptFormat, TurnPrompt};
use spag_model::Tokenizer;
use spag_rewards::{Query, Sample, SampleKind};

use crate::error::{Error, Result};
use crate::trajectory::{Span, Trajectory};

/// Encodes samples in order on all cores: trajectories with one span, the target and the token that ends it. `first_row` is the row of the first one.
///
/// # Errors
/// [`Error::Sample`] of the first row whose text the tokenizer rejects, whose messages have no chat template, or whose weight or
/// reward is no finite number.
pub fn encode(
    samples: &[Sample],
    first_row: usize,
    encoder: &PromptEncoder,
    max_length: usize,
) -> Result<Vec<Trajectory>> {
    let encoded = encode_with_lengths(samples, first_row, encoder, max_length)?;
    Ok(encoded.into_iter().map(|(trajectory, _)| trajectory).collect())
}

/// As [`encode`], with the number of tokens before any were cut.
pub(crate) fn encode_with_lengths(
    samples: &[Sample],
    first_row: usize,
    encoder: &PromptEncoder,
    max_length: usize,
) -> Result<Vec<(Trajectory, usize)>> {
    let rows: Vec<Result<(Trajectory, usize)>> = samples
        .par_iter()
        .enumerate()
        .map(|(offset, sample)| {
            let row = first_row + offset;
            let refused = |reason: String| Error::Sample { row, reason };
            sample.check().map_err(|error| refused(error.to_string()))?;
            let (mut ids, target) = tokens(sample, encoder).map_err(|error| refused(error.to_string()))?;
            let prompt = ids.len();
            ids.extend(target);
            let length = ids.len();
            let cut = length.saturating_sub(max_length);
            let target = prompt.saturating_sub(cut)..length - cut;
            let span = Span { kind: sample.kind, weight: sample.weight, ..Span::new(target, sample.reward) };
            Ok((Trajectory { row, ids: ids.split_off(cut), spans: vec![span] }, length))
        })
        .collect();
    rows.into_iter().collect()
}

/// The tokens before the target, and those of the target.
fn tokens(sample: &Sample, encoder: &PromptEncoder) -> spag_chat::Result<(Vec<u32>, Vec<u32>)> {
    let (Query::Messages(messages), true) = (&sample.query, sample.reasoning.is_some() || sample.seat.is_some()) else {
        return Ok((prompt(sample, encoder)?, target(sample, encoder)?));
    };
    let query = TurnPrompt::Chat(messages.clone());
    let text = encoder.text(&query)?;
    let (form, end) = (encoder.reasoning_form(PromptFormat::Chat)?, encoder.end_of_prompt(&text));
    let reasoning = sample.reasoning.as_deref();
    let (Some(form), true) = (form, reasoning.is_some() || end == PromptEnd::Opened) else {
        return Ok((encoder.begin(&query, &text)?, target(sample, encoder)?));
    };
    // Where the template opens reasoning, a player that thought nothing has closed it.
    let completion = form.completion(end, reasoning, &sample.target);
    let mut target = encoder.continued(&completion)?;
    target.push(encoder.end_of_turn()?);
    Ok((encoder.begin(&query, &text)?, target))
}

/// The tokens before the target: those of play.
fn prompt(sample: &Sample, encoder: &PromptEncoder) -> spag_chat::Result<Vec<u32>> {
    let tokenizer = encoder.tokenizer();
    let bos = || tokenizer.bos().into_iter();
    match &sample.query {
        // A tokenizer may add a leading piece even to an empty text.
        Query::Text(text) if text.is_empty() => Ok(bos().collect()),
        Query::Text(text) => Ok(bos().chain(encode_text(sample, text, tokenizer)?).collect()),
        Query::Said(prompt) => Ok(tokenizer.encode_said_prompt(prompt)?),
        Query::Templated(text) => Ok(tokenizer.encode(text)?),
        Query::Messages(messages) => encoder.encode_chat(messages),
    }
}

/// The tokens of the target and the one that ends it: in a chat the template's end of a turn, else EOS.
fn target(sample: &Sample, encoder: &PromptEncoder) -> spag_chat::Result<Vec<u32>> {
    let mut ids = encode_text(sample, &sample.target, encoder.tokenizer())?;
    ids.push(match &sample.query {
        Query::Messages(_) => encoder.end_of_turn()?,
        _ => encoder.tokenizer().eos(),
    });
    Ok(ids)
}

/// A text without parts: of a game as it was played, else with special tokens matched.
fn encode_text(sample: &Sample, text: &str, tokenizer: &Tokenizer) -> spag_model::Result<Vec<u32>> {
    match (sample.kind, &sample.query, sample.seat) {
        (SampleKind::Sft, ..) | (_, Query::Messages(_), None) => tokenizer.encode(text),
        (SampleKind::Game, ..) => tokenizer.encode_text(text),
    }
}
