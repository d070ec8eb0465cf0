//! The merges of a SentencePiece model. The file has none: two neighbours may merge if their text together is a piece, and
//! the piece with the highest score is merged first.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Kind, PieceModel};

/// The most merges. The largest published models have some 600 thousand.
const MAX_MERGES: usize = 1 << 21;
/// Sum of the squares of all lengths in bytes, at most: the time to look all parts of all pieces up, and the size of the
/// result. The largest published models have some 30 million.
const MAX_WORK: usize = 1 << 28;

/// A merge as it is sorted.
struct Merge<'a> {
    score: f32,
    /// Characters of the left and of the right part.
    characters: (usize, usize),
    parts: (&'a str, &'a str),
}

/// All merges, the first to apply first.
///
/// As in transformers, merges of one score are ordered by the length of the left part, then of the right, the longest
/// first, then by ids. Control pieces and bytes take no part: SentencePiece never finds them in a text.
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
    // Stable: merges that are equal stay in the order of the pieces.
    all.sort_by(|a, b| {
        // Scores are finite.
        let by_score = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
        by_score.then(b.characters.cmp(&a.characters))
    });
    Ok(all.into_iter().map(|merge| merge.parts).collect())
}
