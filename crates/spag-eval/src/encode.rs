//! Rows to tokens, as lm-evaluation-harness's backend `hf` makes them.

use std::ops::Range;

use spag_model::{Result, Tokenizer};

use crate::metric::is_space;

/// Tokens of which some are scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scored {
    /// The context and what is scored after it.
    pub(crate) tokens: Vec<u32>,
    /// The positions of the scored tokens.
    pub(crate) scored: Range<usize>,
    /// Tokens of the context that were left out at its beginning.
    pub(crate) cut: usize,
}

/// Encodes the texts of a model.
#[derive(Clone, Copy)]
pub(crate) struct TextEncoder<'a> {
    pub(crate) tokenizer: &'a Tokenizer,
    /// Prepended to every text.
    pub(crate) bos: Option<u32>,
    /// The most tokens that the model can see.
    pub(crate) max_length: usize,
}

impl TextEncoder<'_> {
    /// The tokens of a text. BOS is not added to a text that begins with it.
    pub(crate) fn text(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = self.tokenizer.encode(text)?;
        if self.bos.is_some() && tokens.first().copied() != self.bos {
            tokens.splice(0..0, self.bos);
        }
        Ok(tokens)
    }

    /// The token that a text without a context follows: BOS, even if other texts do not begin with it, or EOS if there is none.
    fn prefix(&self) -> u32 {
        self.tokenizer.bos_token().unwrap_or(self.tokenizer.eos())
    }

    /// A continuation after its context. Blanks at the end of the context belong to the continuation. Both are encoded together,
    /// and the tokens after as many as the context has alone follow the tokens that it has alone: these differ from the others
    /// if the tokenizer joins the end of the context and what follows. `None` if nothing follows.
    pub(crate) fn pair(&self, context: &str, continuation: &str) -> Result<Option<Scored>> {
        let bare = context.trim_end_matches(is_space);
        let before = self.text(bare)?;
        let (mut tokens, from): (Vec<u32>, usize) = if before.is_empty() || context.is_empty() {
            let mut tokens = self.tokenizer.encode(&format!("{context}{continuation}"))?;
            if tokens.first() != Some(&self.prefix()) {
                tokens.insert(0, self.prefix());
            }
            (tokens, 1)
        } else {
            let from = before.len();
            let whole = self.text(&format!("{context}{continuation}"))?;
            (before.into_iter().chain(whole.into_iter().skip(from)).collect(), from)
        };
        if tokens.len() <= from {
            return Ok(None);
        }
        // The last token is predicted and not seen.
        let cut = tokens.len().saturating_sub(self.max_length + 1).min(from - 1);
        tokens.drain(..cut);
        Ok(Some(Scored { scored: from - cut..tokens.len(), tokens, cut }))
    }

    /// The windows of a text, each token scored once: the first after the prefix, the others after the tokens before them.
    pub(crate) fn windows(&self, text: &str) -> Result<Vec<Scored>> {
        let text = self.text(text)?;
        let first = text.len().min(self.max_length);
        let mut windows = Vec::new();
        if first > 0 {
            let tokens = std::iter::once(self.prefix()).chain(text[..first].iter().copied()).collect();
            windows.push(Scored { tokens, scored: 1..first + 1, cut: 0 });
        }
        let mut done = first;
        while done < text.len() {
            let end = text.len().min(done + self.max_length);
            let start = end.saturating_sub(self.max_length + 1);
            windows.push(Scored { tokens: text[start..end].to_vec(), scored: done - start..end - start, cut: 0 });
            done = end;
        }
        Ok(windows)
    }

    /// A prompt for an answer of at most `new` tokens.
    pub(crate) fn prompt(&self, text: &str, new: usize) -> Result<Scored> {
        let mut tokens = self.text(text)?;
        if tokens.is_empty() {
            tokens.push(self.prefix());
        }
        let cut = tokens.len().saturating_sub(self.max_length.saturating_sub(new).max(1));
        tokens.drain(..cut);
        Ok(Scored { scored: tokens.len()..tokens.len(), tokens, cut })
    }
}
