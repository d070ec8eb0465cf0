//! Prompts that grow with a game: what a player sampled stays the tokens that it sampled.
//!
//! A prompt that is encoded as a whole has other tokens for what a model said than those that it sampled, and text that is
//! appended can change the tokens before it. Here a prompt is pieces: what players said, and what stands between. Each is
//! encoded once. A player's own utterances are its sampled tokens. So the prompts of a game begin alike, keys and values are
//! computed once, and the sequences are those that a model can be trained on exactly.

use spag_io::{PromptText, TurnPrompt};
use spag_model::Tokenizer;

use crate::error::Result;
use crate::prompt_encoder::PromptEncoder;

/// The tokens of one player's prompts in one game.
#[derive(Clone, Debug, Default)]
pub struct PromptHistory {
    /// The text of the last prompt, and of the utterance after it.
    text: String,
    /// Its tokens.
    ids: Vec<u32>,
    ends: Vec<PieceEnd>,
    /// The player's own utterances, in order.
    own: Vec<OwnUtterance>,
}

/// What the player said.
#[derive(Clone, Debug)]
struct OwnUtterance {
    /// As later prompts have it.
    text: String,
    /// What it sampled.
    ids: Vec<u32>,
    /// Whether the tokens begin with a blank that the text has not.
    has_blank: bool,
}

/// Where a piece ends.
#[derive(Clone, Copy, Debug, Default)]
struct PieceEnd {
    /// Bytes of the text up to here.
    bytes: usize,
    /// Tokens up to here.
    tokens: usize,
    /// Own utterances up to here.
    own: usize,
}

impl PromptHistory {
    /// The tokens of the next prompt: those of the pieces that it begins with as the last one did, and then of new pieces.
    ///
    /// # Errors
    /// As [`PromptEncoder::encode`]. Nothing has changed then.
    pub fn prompt(&mut self, encoder: &PromptEncoder, prompt: &TurnPrompt) -> Result<Vec<u32>> {
        let text = encoder.text(prompt)?;
        let common = self.text.bytes().zip(text.text().bytes()).take_while(|(a, b)| a == b).count();
        let kept = self.ends.partition_point(|end| end.bytes <= common);
        let mut ends = self.ends[..kept].to_vec();
        let from = ends.last().copied().unwrap_or_default();
        let (mut ids, mut own) = (self.ids[..from.tokens].to_vec(), from.own);
        for Piece { end, text, is_said } in pieces(&text, from.bytes) {
            let sampled = if is_said { self.own_from(own, text.text()) } else { None };
            match sampled {
                Some((index, said)) => {
                    // The blank before it is that of the tokens.
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

    /// What the player said after the last prompt: the text as later prompts have it, and the sampled tokens that stand for it,
    /// without one that ended it.
    ///
    /// # Errors
    /// Tokens that the tokenizer cannot decode.
    pub fn said(&mut self, tokenizer: &Tokenizer, text: &str, ids: Vec<u32>) -> Result<()> {
        let has_blank = !text.starts_with(BLANK) && tokenizer.decode_continued(&self.ids, &ids)?.starts_with(BLANK);
        self.text.push_str(text);
        self.ids.extend(&ids);
        self.own.push(OwnUtterance { text: text.to_owned(), ids, has_blank });
        self.ends.push(PieceEnd { bytes: self.text.len(), tokens: self.ids.len(), own: self.own.len() });
        Ok(())
    }

    /// The first own utterance with this text, or this text after a blank, that is not among the first `from`.
    fn own_from(&self, from: usize, text: &str) -> Option<(usize, &OwnUtterance)> {
        let is_it = |own: &OwnUtterance| own.text == text || text.strip_prefix(BLANK) == Some(&own.text);
        self.own.iter().enumerate().skip(from).find(|(_, own)| is_it(own))
    }
}

/// A blank between a name and what was said. Tokens of words have it at their begin, so it belongs to what was said.
const BLANK: &str = " ";

/// A piece of a prompt.
struct Piece {
    /// Its end in the text of the prompt, in bytes.
    end: usize,
    text: PromptText,
    is_said: bool,
}

/// What players said, and what is between, from a byte on that is the end of a piece.
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

/// Encodes a text that continues another. Tokenizers of LLaMA put a blank before every text that they encode; a text after a
/// line break has none.
fn continued(tokenizer: &Tokenizer, text: &PromptText) -> Result<Vec<u32>> {
    const BEFORE: &str = "\n";
    let encode = |text: &str| tokenizer.encode_text(text);
    if encode("\na")?.ends_with(&encode("a")?) {
        return Ok(tokenizer.encode_said(text)?);
    }
    let mut after = PromptText::own(BEFORE);
    after.append(text);
    let (before, both) = (encode(BEFORE)?, tokenizer.encode_said(&after)?);
    // A tokenizer that joins the line break with what follows has the blank.
    Ok(match both.strip_prefix(&before[..]) {
        Some(rest) => rest.to_vec(),
        None => tokenizer.encode_said(text)?,
    })
}
