//! The pieces of a GGUF file.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::message::StoredPiece;
use super::{Kind, Normalizer, PieceModel, UNKNOWN_SURFACE, pipeline, read_pieces};
use crate::tokenizer::roles::Roles;

/// What a GGUF file says of a SentencePiece model of kind BPE.
pub(in crate::tokenizer) struct GgufPieces {
    /// Text, score, and the number of the type, which is SentencePiece's.
    pub(in crate::tokenizer) pieces: Vec<(String, f32, i32)>,
    /// The id of the unknown piece.
    pub(in crate::tokenizer) unknown: usize,
    /// Whether a blank is put in front of every text.
    pub(in crate::tokenizer) space_prefix: bool,
}

/// The contents of a `tokenizer.json`.
///
/// # Errors
/// Pieces that are not valid, or have no order of merges.
pub(in crate::tokenizer) fn from_gguf(stored: GgufPieces, roles: &Roles) -> Result<Map<String, Value>, String> {
    let GgufPieces { pieces, unknown, space_prefix } = stored;
    let stored = |(text, score, kind)| StoredPiece { text, score, kind: Some(kind) };
    let mut pieces = read_pieces(pieces.into_iter().map(stored).collect())?;
    let normal = || pieces.iter().filter(|piece| piece.kind == Kind::Normal).map(|piece| piece.score);
    if normal().count() > 1 && normal().zip(normal().skip(1)).all(|(one, next)| one == next) {
        return Err("all pieces of its tokenizer have the same score, so that the order of merges is not known".into());
    }
    match pieces.get_mut(unknown) {
        Some(piece) => piece.kind = Kind::Unknown,
        None => return Err(format!("its unknown token has id {unknown}, and there are {} pieces", pieces.len())),
    }
    let bytes: HashSet<u8> = pieces.iter().filter_map(super::Piece::byte).collect();
    let normalizer = Normalizer {
        charsmap: Vec::new(),
        dummy_prefix: space_prefix,
        remove_extra_whitespaces: false,
        denormalizes: false,
    };
    let model = PieceModel {
        byte_fallback: bytes.len() == 256,
        unknown_surface: UNKNOWN_SURFACE.to_owned(),
        pieces,
        unknown,
        normalizer,
    };
    // The class of the roles is one that transformers converts, so the pipeline decodes.
    Ok(pipeline::pipeline(&model, roles)?.0)
}
