//! Writes `tokenizer.model` files, including invalid ones.

/// A SentencePiece model to write.
#[derive(Clone)]
pub(crate) struct PieceModel {
    /// Texts, scores and types.
    pub(crate) pieces: Vec<(String, f32, u8)>,
    /// 1: Unigram, 2: BPE, 3: words, 4: characters.
    pub(crate) kind: u8,
    pub(crate) byte_fallback: u8,
    pub(crate) charsmap: Vec<u8>,
    pub(crate) dummy_prefix: u8,
    /// Appended to the specification of the trainer.
    pub(crate) trainer: Vec<u8>,
    /// Appended to that of the normalizer.
    pub(crate) normalizer: Vec<u8>,
}

pub(crate) const NORMAL: u8 = 1;
pub(crate) const UNKNOWN: u8 = 2;
pub(crate) const CONTROL: u8 = 3;
pub(crate) const BYTE: u8 = 6;

impl PieceModel {
    /// `<unk>`, `<s>`, `</s>`, all bytes, and `texts` with scores from -1 down.
    pub(crate) fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut pieces: Vec<(String, f32, u8)> = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
            .map(|(text, kind)| (text.into(), 0.0, kind))
            .into();
        pieces.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), 0.0, BYTE)));
        pieces.extend(texts.into_iter().enumerate().map(|(i, text)| (text.to_owned(), -1.0 - i as f32, NORMAL)));
        let (trainer, normalizer) = (Vec::new(), vec![0x20, 0]);
        Self { pieces, kind: 2, byte_fallback: 1, charsmap: Vec::new(), dummy_prefix: 1, trainer, normalizer }
    }

    /// The contents of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (text, score, kind) in &self.pieces {
            let mut piece = field(1, text.as_bytes());
            piece.push(0x15);
            piece.extend(score.to_le_bytes());
            piece.extend([0x18, *kind]);
            bytes.extend(field(1, &piece));
        }
        // model_type, byte_fallback; precompiled_charsmap, add_dummy_prefix.
        let trainer = [&[0x18, self.kind, 0x98, 0x02, self.byte_fallback][..], &self.trainer].concat();
        let charsmap = if self.charsmap.is_empty() { Vec::new() } else { field(2, &self.charsmap) };
        let normalizer = [&charsmap, &[0x18, self.dummy_prefix][..], &self.normalizer].concat();
        [bytes, field(2, &trainer), field(3, &normalizer)].concat()
    }
}

/// A field of bytes.
pub(crate) fn field(number: u8, contents: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = contents.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(contents);
    bytes
}
