//! Incremental prompts of a game: a player's own utterances keep their sampled tokens.
//!
//! Encoding a whole prompt as text gives a model's utterances other tokens than the sampled ones, and appended text can
//! change earlier tokens. Here a prompt is split into pieces (what players said, and the text between), each encoded once. A
//! player's own utterances are its sampled tokens. So a game's prompts share a prefix, its KV cache is computed once, and
//! the model is trained on exactly the sampled sequences.

use spag_io::{PromptText, TurnPrompt};
use spag_model::Tokenizer;

use crate::error::Result;
use crate::prompt_encoder::PromptEncoder;

/// The tokens of one player's prompts in one game.
#[derive(Clone, Debug, Default)]
pub struct PromptHistory {
    /// The text of the last prompt and the utterance after it.
    text: String,
    /// Its tokens.
    ids: Vec<u32>,
    ends: Vec<PieceEnd>,
    /// The player's own utterances, in order.
    own: Vec<OwnUtterance>,
}

/// An utterance of the player.
#[derive(Clone, Debug)]
struct OwnUtterance {
    /// The text as it appears in later prompts.
    text: String,
    /// The sampled tokens.
    ids: Vec<u32>,
    /// Whether the tokens begin with a blank that the text lacks.
    has_blank: bool,
}

/// The end of a piece.
#[derive(Clone, Copy, Debug, Default)]
struct PieceEnd {
    /// Bytes of the text before this end.
    bytes: usize,
    /// Tokens before this end.
    tokens: usize,
    /// Own utterances before this end.
    own: usize,
}

impl PromptHistory {
    /// The tokens of the next prompt, of which `text` is [the text](PromptEncoder::text): those of the leading pieces shared with the
    /// last prompt, then of the new pieces.
    ///
    /// # Errors
    /// As [`PromptEncoder::encode`]; the history is unchanged then.
    pub fn prompt(&mut self, encoder: &PromptEncoder, prompt: &TurnPrompt, text: PromptText) -> Result<Vec<u32>> {
        let common = self.text.bytes().zip(text.text().bytes()).take_while(|(a, b)| a == b).count();
        let kept = self.ends.partition_point(|end| end.bytes <= common);
        let mut ends = self.ends[..kept].to_vec();
        let from = ends.last().copied().unwrap_or_default();
        let (mut ids, mut own) = (self.ids[..from.tokens].to_vec(), from.own);
        for Piece { end, text, is_said } in pieces(&text, from.bytes) {
            let sampled = if is_said { self.own_from(own, text.text()) } else { None };
            match sampled {
                Some((index, said)) => {
                    // The tokens include the blank before it.
                    if !said.has_blank && text.text() != said.text {
                        ids.extend(continued(encoder.tokenizer(), &PromptText::own(BLANK))?);
                    }
                    ids.extend(&said.ids);
                    own = index + 1;
                }
                None if ends.is_empty() => ids = encoder.begin(prompt, &text)?,
                None => ids.extend(continued(encoder.tokenizer(), &text)?),
            }
            ends.push(PieceEnd { bytes: end, tokens: ids.len(), own });
        }
        (self.text, self.ends) = (text.into_text(), ends);
        self.ids.clone_from(&ids);
        Ok(ids)
    }

    /// Records what the player said after the last prompt: the text as it appears in later prompts, and its sampled tokens,
    /// without an ending token.
    ///
    /// # Errors
    /// The tokenizer cannot decode the tokens.
    pub fn said(&mut self, tokenizer: &Tokenizer, text: &str, ids: Vec<u32>) -> Result<()> {
        let has_blank = !text.starts_with(BLANK) && tokenizer.decode_continued(&self.ids, &ids)?.starts_with(BLANK);
        self.text.push_str(text);
        self.ids.extend(&ids);
        self.own.push(OwnUtterance { text: text.to_owned(), ids, has_blank });
        self.ends.push(PieceEnd { bytes: self.text.len(), tokens: self.ids.len(), own: self.own.len() });
        Ok(())
    }

    /// The first own utterance from index `from` on whose text is `text`, optionally preceded by a blank.
    fn own_from(&self, from: usize, text: &str) -> Option<(usize, &OwnUtterance)> {
        let is_it = |own: &OwnUtterance| own.text == text || text.strip_prefix(BLANK) == Some(&own.text);
        self.own.iter().enumerate().skip(from).find(|(_, own)| is_it(own))
    }
}

/// The blank between a name and an utterance. Tokenizers attach it to the following word, so it counts as part of
/// the utterance.
const BLANK: &str = " ";

/// A piece of a prompt.
struct Piece {
    /// Its end in the text of the prompt, in bytes.
    end: usize,
    text: PromptText,
    is_said: bool,
}

/// Splits the text into what players said and the text between, starting at byte `from`, which ends a piece.
fn pieces(text: &PromptText, from: usize) -> Vec<Piece> {
    let all = text.text();
    let mut pieces = Vec::new();
    let mut push = |start: usize, end: usize, is_said: bool| {
        if let Some(part) = all.get(start..end).filter(|part| !part.is_empty()) {
            let text = if is_said { PromptText::all_said(part) } else { PromptText::own(part) };
            pieces.push(Piece { end, text, is_said });
        }
    };
    let mut at = from;
    for said in text.said().iter().filter(|said| said.end > from) {
        let before = all.get(at..said.start).unwrap_or_default();
        let start = if before.ends_with(BLANK) { said.start - BLANK.len() } else { said.start };
        push(at, start, false);
        push(start.max(at), said.end, true);
        at = said.end;
    }
    push(at, all.len(), false);
    pieces
}

/// Encodes a text that continues another. LLaMA tokenizers prepend a blank to every text that they encode; a text after a
/// line break needs none.
pub(crate) fn continued(tokenizer: &Tokenizer, text: &PromptText) -> Result<Vec<u32>> {
    const BEFORE: &str = "\n";
    let encode = |text: &str| tokenizer.encode_text(text);
    if encode("\na")?.ends_with(&encode("a")?) {
        return Ok(tokenizer.encode_said(text)?);
    }
    let mut after = PromptText::own(BEFORE);
    after.append(text);
    let (before, both) = (encode(BEFORE)?, tokenizer.encode_said(&after)?);
    // A tokenizer that merges the line break with the following text keeps the blank.
    Ok(match both.strip_prefix(&before[..]) {
        Some(rest) => rest.to_vec(),
        None => tokenizer.encode_said(text)?,
    })
}
