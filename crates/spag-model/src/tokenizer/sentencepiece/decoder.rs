//! SentencePiece's own decoder. It differs from the pipeline's for invalid UTF-8 and at the start of a text.

use serde_json::Value;

use super::{BLANK, Kind, PieceModel};
use crate::tokenizer::bytes::REPLACEMENT;

/// Decodes ids as SentencePiece does.
pub(crate) struct PieceDecoder {
    /// By id.
    units: Vec<Unit>,
    /// Whether the leading blank of the first piece is dropped.
    drops_blank: bool,
}

/// The meaning of an id.
enum Unit {
    /// A piece with its blanks.
    Piece(String),
    /// Text whose blanks are kept.
    Surface(String),
    Byte(u8),
}

impl PieceDecoder {
    /// The decoder of a model's pieces and of tokens added after them.
    pub(super) fn new(model: &PieceModel, added: &[Value]) -> Self {
        let pieces = model.pieces.iter().map(|piece| match piece.kind {
            Kind::Byte(byte) => Unit::Byte(byte),
            Kind::Control => Unit::Surface(String::new()),
            Kind::Unknown => Unit::Surface(model.unknown_surface.clone()),
            Kind::Normal | Kind::UserDefined => Unit::Piece(piece.text.replace(BLANK, " ")),
        });
        let content = |token: &Value| token.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_later =
            |token: &&Value| token.get("id").and_then(Value::as_u64).is_some_and(|id| id >= model.pieces.len() as u64);
        let later = added.iter().filter(is_later).map(content).filter(|text| !text.is_empty()).map(Unit::Surface);
        Self { units: pieces.chain(later).collect(), drops_blank: model.normalizer.dummy_prefix }
    }

    /// The text of `ids`. Ids beyond the vocabulary have none.
    pub(crate) fn decode(&self, ids: impl Iterator<Item = u32>) -> String {
        let (mut text, mut bytes) = (String::new(), Vec::new());
        let mut drops_blank = self.drops_blank;
        for unit in ids.filter_map(|id| self.units.get(id as usize)) {
            match unit {
                Unit::Byte(byte) => bytes.push(*byte),
                Unit::Surface(surface) => {
                    append(&mut text, &mut bytes);
                    text.push_str(surface);
                }
                Unit::Piece(piece) => {
                    append(&mut text, &mut bytes);
                    drops_blank &= text.is_empty();
                    let rest = piece.strip_prefix(' ').filter(|_| drops_blank);
                    drops_blank &= rest.is_none();
                    text.push_str(rest.unwrap_or(piece));
                }
            }
        }
        append(&mut text, &mut bytes);
        text
    }
}

/// Appends a run of bytes, replacing every byte that is not part of a valid character.
fn append(text: &mut String, bytes: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n(REPLACEMENT, chunk.invalid().len()));
    }
    bytes.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(drops_blank: bool) -> PieceDecoder {
        let piece = |text: &str| Unit::Piece(text.to_owned());
        let surface = |text: &str| Unit::Surface(text.to_owned());
        let pieces = [surface(""), piece(" a"), piece(" "), piece("b"), surface(" ?")];
        PieceDecoder { units: (0..=255).map(Unit::Byte).chain(pieces).collect(), drops_blank }
    }

    #[test]
    fn bytes_outside_of_characters_are_replaced_one_by_one() {
        for (bytes, expected) in [
            (&[0xe4_u8, 0xbd, 0xa0][..], "你"),
            (&[0xe4, 0xbd, 0xa0, 0xe5, 0xa5], "你\u{fffd}\u{fffd}"),
            (&[0xc3, 0xa9, 0xff], "é\u{fffd}"),
            (&[0xf0, 0x9f, 0x99], "\u{fffd}\u{fffd}\u{fffd}"),
            (&[0xed, 0xa0, 0x80, 0x41], "\u{fffd}\u{fffd}\u{fffd}A"),
        ] {
            assert_eq!(decoder(false).decode(bytes.iter().map(|byte| u32::from(*byte))), expected);
        }
        // A piece between two bytes separates them.
        assert_eq!(decoder(false).decode([0xc3, 259, 0xa9].into_iter()), "\u{fffd}b\u{fffd}");
    }

    #[test]
    fn only_the_first_blank_of_a_text_is_dropped_and_only_after_a_dummy_prefix() {
        for (ids, kept, dropped) in [
            (&[257, 257][..], " a a", "a a"),
            (&[258, 257], "  a", " a"),
            (&[256, 257], " a", "a"),
            (&[0x41, 257], "A a", "A a"),
            (&[259, 258], "b ", "b "),
            (&[260, 257], " ? a", " ? a"),
            (&[70_000], "", ""),
        ] {
            assert_eq!(decoder(false).decode(ids.iter().copied()), kept, "{ids:?}");
            assert_eq!(decoder(true).decode(ids.iter().copied()), dropped, "{ids:?}");
        }
    }
}
