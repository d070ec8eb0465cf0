//! Tokens and characters that represent bytes.

/// Emitted by decoders for invalid UTF-8.
pub(super) const REPLACEMENT: char = '\u{fffd}';

/// The byte of a token like `<0x0A>`.
pub(super) fn byte_token(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    let hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if hex { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The bytes of a token of a byte-level vocabulary, in which each character represents a byte: visible Latin-1 characters
/// represent themselves, and the other 68 bytes are the characters from U+0100 on.
pub(super) fn byte_level(piece: &str) -> Option<Vec<u8>> {
    let is_visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    piece
        .chars()
        .map(|c| match u8::try_from(u32::from(c)) {
            Ok(byte) => is_visible(byte).then_some(byte),
            Err(_) => (0..=u8::MAX).filter(|byte| !is_visible(*byte)).nth(usize::try_from(c).ok()?.checked_sub(0x100)?),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_hexadecimal_digits() {
        assert_eq!((byte_token("<0x0A>"), byte_token("<0xfF>")), (Some(10), Some(255)));
        for other in ["<0x>", "<0x+1>", "<0x100>", "0x0A", "<0xé>", "<0x0A"] {
            assert_eq!(byte_token(other), None, "{other}");
        }
    }

    #[test]
    fn byte_tokens_and_byte_level_characters_are_bytes() {
        assert_eq!(byte_token("<0x0A>"), Some(b'\n'));
        assert_eq!((byte_token("<0x0a1>"), byte_token("<s>"), byte_token("<0x>")), (None, None, None));
        assert_eq!(byte_level("Ġthe"), Some(b" the".to_vec()));
        assert_eq!(byte_level("Ċé"), Some(vec![b'\n', 0xe9]));
        assert_eq!(byte_level("ł"), Some(vec![0xa0]), "the blank that does not break");
        assert_eq!((byte_level("\u{fffd}"), byte_level("\u{ad}")), (None, None));
    }
}
