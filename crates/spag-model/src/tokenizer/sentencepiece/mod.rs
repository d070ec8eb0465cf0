//! Parses and validates SentencePiece's `tokenizer.model`, or the pieces of a GGUF file, and converts them to a pipeline of
//! the tokenizers library.

mod decoder;
mod merges;
mod message;
mod pipeline;

use std::collections::HashSet;

use prost::Message as _;
use spag_io::quote;

use self::message::{Model, NormalizerSpec};
use super::bytes::byte_token;
use super::definition::Definition;
use super::roles::Roles;
use super::vocabulary::MAX_TOKEN;

pub(super) use decoder::PieceDecoder;
pub(super) use message::StoredPiece;
pub(super) use pipeline::pipeline;

/// Maximum bytes of a `tokenizer.model`. Those of published models have some 5 MB.
const MAX_BYTES: usize = 16 << 20;
/// Maximum pieces.
const MAX_PIECES: usize = 1 << 21;
/// Represents a blank in pieces.
const BLANK: char = '▁';
/// Default decoding of the unknown piece.
pub(super) const UNKNOWN_SURFACE: &str = " \u{2047} ";

/// The pipeline of a `tokenizer.model` with these contents, and SentencePiece's decoder if it is used instead of the
/// pipeline's.
///
/// # Errors
/// A malformed file, or an unsupported model.
pub(super) fn read(bytes: &[u8], roles: &Roles) -> Result<(Definition, Option<PieceDecoder>), String> {
    let (definition, decoder) = pipeline(&PieceModel::read(bytes)?, roles)?;
    Ok((Definition::check(definition, &roles.all_named())?, decoder))
}

/// A validated BPE model.
pub(super) struct PieceModel {
    /// In order of their ids.
    pub(super) pieces: Vec<Piece>,
    /// The id of the unknown piece.
    pub(super) unknown: usize,
    /// The decoded text of the unknown piece.
    pub(super) unknown_surface: String,
    pub(super) byte_fallback: bool,
    pub(super) normalizer: Normalizer,
}

pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Found by merging characters.
    Normal,
    /// Matched whole in a text, and kept in decoding.
    UserDefined,
    /// E.g. BOS and EOS: never found in a text.
    Control,
    Unknown,
    Byte(u8),
}

/// Normalization of a text before it is split.
pub(super) struct Normalizer {
    /// Character replacements, in the library's format; may be empty.
    pub(super) charsmap: Vec<u8>,
    /// Whether a blank is prepended to every text.
    pub(super) dummy_prefix: bool,
    /// Whether leading and trailing blanks are removed, and runs of blanks collapsed.
    pub(super) remove_extra_whitespaces: bool,
    /// Whether decoding replaces characters.
    pub(super) denormalizes: bool,
}

impl PieceModel {
    /// Parses and validates the contents of a `tokenizer.model`.
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let invalid = |reason: String| format!("not a valid SentencePiece model: {}", quote(&reason));
        // An empty piece takes two bytes here and some forty in memory.
        if bytes.len() > MAX_BYTES {
            return Err(invalid(format!("it has {} bytes; at most {MAX_BYTES} are supported", bytes.len())));
        }
        let model = Model::decode(bytes).map_err(|e| invalid(e.to_string()))?;
        let Some(trainer) = model.trainer else { return Err(invalid("it does not name its kind".into())) };
        let kind = match trainer.model_type {
            Some(2) => None,
            None | Some(1) => Some("Unigram"),
            Some(3) => Some("Word"),
            Some(4) => Some("Char"),
            Some(_) => Some("unknown"),
        };
        if let Some(kind) = kind {
            return Err(format!(
                "this is a SentencePiece model of kind {kind}; of tokenizer.model only kind BPE is supported, of \
                 tokenizer.json Unigram too"
            ));
        }
        if trainer.treat_whitespace_as_suffix {
            return Err("`treat_whitespace_as_suffix` of this SentencePiece model is not supported".into());
        }
        let denormalizes = model.denormalizer.is_some_and(|spec| !spec.precompiled_charsmap.is_empty());
        let normalizer = Normalizer::read(model.normalizer.unwrap_or_default(), denormalizes)?;
        let pieces = read_pieces(model.pieces).map_err(invalid)?;
        let unknown: Vec<usize> = (0..pieces.len()).filter(|id| pieces[*id].kind == Kind::Unknown).collect();
        let &[unknown] = unknown.as_slice() else {
            return Err(invalid(format!("it has {} unknown pieces, not one", unknown.len())));
        };
        let found: HashSet<u8> = pieces.iter().filter_map(Piece::byte).collect();
        if trainer.byte_fallback && found.len() < 256 {
            let found = found.len();
            return Err(invalid(format!("`byte_fallback` is set, but there are pieces for {found} of 256 bytes")));
        }
        let unknown_surface = trainer.unk_surface.unwrap_or_else(|| UNKNOWN_SURFACE.to_owned());
        if unknown_surface.len() > MAX_TOKEN {
            return Err(invalid(format!("`unk_surface` has {} bytes, more than {MAX_TOKEN}", unknown_surface.len())));
        }
        Ok(Self { pieces, unknown, unknown_surface, byte_fallback: trainer.byte_fallback, normalizer })
    }

    /// The text of a piece.
    fn text(&self, id: usize) -> &str {
        self.pieces.get(id).map_or("", |piece| &piece.text)
    }
}

impl Piece {
    /// The byte that it represents.
    pub(super) fn byte(&self) -> Option<u8> {
        match self.kind {
            Kind::Byte(byte) => Some(byte),
            _ => None,
        }
    }
}

impl Normalizer {
    fn read(spec: NormalizerSpec, denormalizes: bool) -> Result<Self, String> {
        if spec.escape_whitespaces == Some(false) {
            return Err("this SentencePiece model does not escape blanks, which is not supported".into());
        }
        Ok(Self {
            dummy_prefix: spec.add_dummy_prefix.unwrap_or(true),
            remove_extra_whitespaces: spec.remove_extra_whitespaces.unwrap_or(true),
            charsmap: spec.precompiled_charsmap,
            denormalizes,
        })
    }
}

/// Validates the pieces.
pub(super) fn read_pieces(stored: Vec<StoredPiece>) -> Result<Vec<Piece>, String> {
    if stored.len() > MAX_PIECES {
        return Err(format!("it has {} pieces; at most {MAX_PIECES} are supported", stored.len()));
    }
    let mut pieces = Vec::with_capacity(stored.len());
    for (id, StoredPiece { text, score, kind }) in stored.into_iter().enumerate() {
        let refuse = |reason: &str| Err(format!("piece {id}, \"{text}\", {reason}"));
        if text.is_empty() {
            return refuse("has no text");
        }
        if text.len() > MAX_TOKEN {
            return Err(format!("piece {id} has {} bytes; at most {MAX_TOKEN} are supported", text.len()));
        }
        if !score.is_finite() {
            return refuse("has a score that is no finite number");
        }
        let kind = match kind {
            // BPE models have no unused pieces.
            None | Some(1 | 5) => Kind::Normal,
            Some(2) => Kind::Unknown,
            Some(3) => Kind::Control,
            Some(4) => Kind::UserDefined,
            Some(6) => match byte_token(&text) {
                Some(byte) => Kind::Byte(byte),
                None => return refuse("stands for a byte, but is not of the form <0x00>"),
            },
            Some(_) => return refuse("is of a type that is not known"),
        };
        pieces.push(Piece { text, score, kind });
    }
    let mut seen = HashSet::with_capacity(pieces.len());
    match pieces.iter().enumerate().find(|(_, piece)| !seen.insert(piece.text.as_str())) {
        Some((id, piece)) => Err(format!("piece {id}, \"{}\", is there twice", piece.text)),
        None => Ok(pieces),
    }
}
