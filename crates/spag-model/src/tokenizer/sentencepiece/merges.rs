//! Derives the merges of a SentencePiece model, which stores none: two adjacent parts merge if their concatenation is a
//! piece, the piece with the highest score first.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Kind, PieceModel};

/// Maximum merges. The largest published models have some 600 thousand.
const MAX_MERGES: usize = 1 << 21;
/// Maximum sum of squared piece lengths in bytes, which bounds the time to look up all parts of all pieces and the size
/// of the result. The largest published models have some 30 million.
const MAX_WORK: usize = 1 << 28;

/// A merge with its sort key.
struct Merge<'a> {
    score: f32,
    /// Characters of the left and of the right part.
    characters: (usize, usize),
    parts: (&'a str, &'a str),
}

/// All merges, in application order.
///
/// As in transformers, merges with equal scores are ordered by the length of the left part, then of the right
/// (longest first), then by ids. Control pieces and bytes are excluded: SentencePiece never finds them in a text.
pub(super) fn merges(model: &PieceModel) -> Result<Vec<(&str, &str)>, String> {
    let mergeable = |kind| matches!(kind, Kind::Normal | Kind::UserDefined);
    let pieces = || model.pieces.iter().enumerate().filter(|(_, piece)| mergeable(piece.kind));
    let work = pieces().map(|(_, piece)| piece.text.len().pow(2)).sum::<usize>();
    if work > MAX_WORK {
        return Err("its pieces are too long together".into());
    }
    let ids: HashMap<&str, usize> = pieces().map(|(id, piece)| (piece.text.as_str(), id)).collect();
    let mut all = Vec::new();
    let mut of_piece = Vec::new();
    for (_, piece) in pieces() {
        let count = piece.text.chars().count();
        for (left, (at, _)) in piece.text.char_indices().enumerate().skip(1) {
            let parts = piece.text.split_at(at);
            if let (Some(first), Some(second)) = (ids.get(parts.0), ids.get(parts.1)) {
                let merge = Merge { score: piece.score, characters: (left, count - left), parts };
                of_piece.push(((first, second), merge));
            }
        }
        of_piece.sort_by_key(|(ids, _)| *ids);
        all.extend(of_piece.drain(..).map(|(_, merge)| merge));
        if all.len() > MAX_MERGES {
            return Err(format!("its pieces have more than {MAX_MERGES} merges"));
        }
    }
    // Stable: equal merges stay in piece order.
    all.sort_by(|a, b| {
        // Scores are finite.
        let by_score = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
        by_score.then(b.characters.cmp(&a.characters))
    });
    Ok(all.into_iter().map(|merge| merge.parts).collect())
}
