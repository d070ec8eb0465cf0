//! Encodes and decodes text, with special tokens matched or taken as text.

use std::collections::HashMap;
use std::sync::OnceLock;

use tokenizers::Tokenizer as Pipeline;

use super::bytes::byte_token;
use super::sentencepiece::PieceDecoder;
use super::special_texts::{SpecialTexts, SpecialTokens};

/// Pipelines of the tokenizers library, with and without matching of special tokens.
pub(super) struct Encoder {
    /// Takes special tokens as text.
    pub(super) plain: Pipeline,
    /// Matches special tokens; created on first use.
    matching: OnceLock<Pipeline>,
    /// Special tokens by id.
    pub(super) special: HashMap<u32, String>,
    /// Their texts.
    pub(super) special_texts: SpecialTexts,
    /// Whether special tokens are matched literally, before normalization.
    pub(super) is_literal: bool,
    /// SentencePiece's decoder, if used instead of the pipeline.
    pieces: Option<PieceDecoder>,
    /// The unknown token, which may occur in any encoding.
    unknown: Option<u32>,
}

impl Encoder {
    pub(super) fn new(mut pipeline: Pipeline, pieces: Option<PieceDecoder>, unknown: Option<u32>) -> Self {
        let added = pipeline.get_added_tokens_decoder();
        let special: HashMap<u32, String> =
            added.iter().filter(|(_, token)| token.special).map(|(id, token)| (*id, token.content.clone())).collect();
        let is_literal = !added.values().any(|token| token.special && token.normalized);
        pipeline.set_encode_special_tokens(true);
        let special_texts = SpecialTexts::new(special.values());
        Self { plain: pipeline, matching: OnceLock::new(), special, special_texts, is_literal, pieces, unknown }
    }

    /// The text of a token: literal for added tokens, else as in the vocabulary.
    pub(super) fn token(&self, id: u32) -> Option<String> {
        self.special.get(&id).cloned().or_else(|| self.plain.id_to_token(id))
    }

    /// Whether decoding considers a token; special tokens and ids beyond the vocabulary are skipped.
    pub(super) fn has_text(&self, id: u32) -> bool {
        !self.special.contains_key(&id) && self.plain.id_to_token(id).is_some()
    }

    /// Whether a token is part of a byte run that the pipeline decodes as a whole: if the run does not end with a valid
    /// character, all its bytes are replaced, so the text of the last ones depends on the next token.
    pub(super) fn is_byte_of_run(&self, id: u32) -> bool {
        let is_byte = |token: String| byte_token(&token).is_some();
        self.pieces.is_none() && self.plain.id_to_token(id).is_some_and(is_byte)
    }

    pub(super) fn encode(&self, text: &str, special: SpecialTokens) -> tokenizers::Result<Vec<u32>> {
        // Usually no special token occurs, and the second pipeline is never created.
        let occurs = || !self.is_literal || self.special.values().any(|token| text.contains(token));
        if special == SpecialTokens::Matched && occurs() {
            return run(self.matching.get_or_init(|| self.matching()), text);
        }
        let ids = run(&self.plain, text)?;
        if !ids.iter().any(|id| self.is_spelled(*id)) {
            return Ok(ids);
        }
        // The vocabulary contains a special token that this text spells, so it is encoded in two parts.
        let (mut ids, mut from) = (Vec::new(), 0);
        for (at, c) in text.char_indices() {
            if self.special.values().any(|token| text[at..].starts_with(token)) {
                ids.extend(run(&self.plain, &text[from..at + c.len_utf8()])?);
                from = at + c.len_utf8();
            }
        }
        ids.extend(run(&self.plain, &text[from..])?);
        match ids.iter().find(|id| self.is_spelled(**id)) {
            Some(id) => Err(format!("it spells the special token with id {id}").into()),
            None => Ok(ids),
        }
    }

    /// Whether a token occurs in an encoding only if the text spells a special token. A special token of one character,
    /// such as a full stop for padding, is that character.
    fn is_spelled(&self, id: u32) -> bool {
        Some(id) != self.unknown && self.special.get(&id).is_some_and(|token| token.chars().nth(1).is_some())
    }

    fn matching(&self) -> Pipeline {
        let mut pipeline = self.plain.clone();
        pipeline.set_encode_special_tokens(false);
        pipeline
    }

    /// Decodes `ids` without special tokens. Ids beyond the vocabulary have no text.
    pub(super) fn decode(&self, ids: &[u32]) -> tokenizers::Result<String> {
        // The library compares texts, and does not recognise special tokens that it normalizes.
        let kept = ids.iter().copied().filter(|id| !self.special.contains_key(id));
        match &self.pieces {
            Some(pieces) => Ok(pieces.decode(kept)),
            None => self.plain.decode(&kept.collect::<Vec<_>>(), true),
        }
    }

    /// [`Encoder::decode`] including special tokens.
    pub(super) fn decode_with_special(&self, ids: &[u32]) -> tokenizers::Result<String> {
        let Some(pieces) = &self.pieces else { return self.plain.decode(ids, false) };
        let mut text = String::new();
        for run in ids.chunk_by(|a, b| !self.special.contains_key(a) && !self.special.contains_key(b)) {
            match run {
                [id] if self.special.contains_key(id) => text.push_str(&self.special[id]),
                run => text.push_str(&pieces.decode(run.iter().copied())),
            }
        }
        Ok(text)
    }
}

fn run(pipeline: &Pipeline, text: &str) -> tokenizers::Result<Vec<u32>> {
    Ok(pipeline.encode_fast(text, false)?.get_ids().to_vec())
}
