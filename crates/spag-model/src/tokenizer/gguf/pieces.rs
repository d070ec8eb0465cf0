//! Converts a SentencePiece vocabulary to a `tokenizer.json`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::vocabulary::{Kind, Vocabulary};
use crate::tokenizer::roles::Roles;
use crate::tokenizer::sentencepiece::{
    Kind as PieceKind, Normalizer, Piece, PieceModel, StoredPiece, UNKNOWN_SURFACE, pipeline, read_pieces,
};

/// The contents of a `tokenizer.json`.
///
/// # Errors
/// The pieces are invalid or have no merge order.
pub(super) fn definition(vocabulary: &Vocabulary<'_>, roles: &Roles) -> Result<Map<String, Value>, String> {
    let key = "tokenizer.ggml.scores";
    let scores = vocabulary.metadata.floats(key)?.ok_or_else(|| format!("it has no `{key}`"))?;
    if scores.len() != vocabulary.tokens.len() {
        return Err(format!("it has {} tokens and scores of {}", vocabulary.tokens.len(), scores.len()));
    }
    // Unused ids are at the end.
    let last = (0..vocabulary.tokens.len()).rfind(|id| vocabulary.kind(*id) != Kind::Unused);
    let stored = vocabulary.tokens.iter().zip(scores).take(last.map_or(0, |last| last + 1)).enumerate();
    // The type numbers are SentencePiece's.
    let stored = stored.map(|(id, (text, score))| StoredPiece {
        text: text.clone(),
        score: *score,
        kind: Some(vocabulary.kind(id) as i32),
    });
    let mut pieces = read_pieces(stored.collect())?;
    let normal = || pieces.iter().filter(|piece| piece.kind == PieceKind::Normal).map(|piece| piece.score);
    if normal().count() > 1 && normal().zip(normal().skip(1)).all(|(one, next)| one == next) {
        return Err("all pieces of its tokenizer have the same score, so that the order of merges is not known".into());
    }
    let unknown = vocabulary.unknown.map_or(0, |id| id as usize);
    match pieces.get_mut(unknown) {
        Some(piece) => piece.kind = PieceKind::Unknown,
        None => return Err(format!("its unknown token has id {unknown}, and there are {} pieces", pieces.len())),
    }
    let bytes: HashSet<u8> = pieces.iter().filter_map(Piece::byte).collect();
    let model = PieceModel {
        byte_fallback: bytes.len() == 256,
        unknown_surface: UNKNOWN_SURFACE.to_owned(),
        pieces,
        unknown,
        normalizer: Normalizer {
            charsmap: Vec::new(),
            dummy_prefix: vocabulary.setting("add_space_prefix", true)?,
            remove_extra_whitespaces: false,
            denormalizes: false,
        },
    };
    // The class of the roles is one that transformers converts, so the pipeline decodes.
    Ok(pipeline(&model, roles)?.0)
}
