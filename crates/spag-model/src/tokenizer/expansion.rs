//! Bounds how much a tokenizer's parts can lengthen a text. A few normalizers in a row that each double it would exhaust
//! memory.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use spag_io::quote;

/// Maximum parts of a sequence, including nested sequences.
const MAX_PARTS: usize = 64;
const MAX_DEPTH: usize = 4;
/// Maximum bytes of a pattern.
const MAX_PATTERN: usize = 8192;
/// Maximum product of all counted repetitions of a pattern, which are compiled individually.
const MAX_REPETITIONS: usize = 20_000;

/// The kind of a tokenizer part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Changes a text before it is split.
    Normalizer,
    /// Splits a text, and may change the pieces.
    PreTokenizer,
    /// Joins tokens to a text.
    Decoder,
}

impl Kind {
    /// The key of the parts of a sequence.
    fn parts(self) -> &'static str {
        match self {
            Self::Normalizer => "normalizers",
            Self::PreTokenizer => "pretokenizers",
            Self::Decoder => "decoders",
        }
    }
}

/// The maximum number of bytes that a byte of text can expand to.
pub(super) fn factor(part: &Value, kind: Kind) -> Result<f64, String> {
    let mut parts = 0;
    of_part(part, kind, 0, &mut parts)
}

fn of_part(part: &Value, kind: Kind, depth: usize, parts: &mut usize) -> Result<f64, String> {
    *parts += 1;
    if *parts > MAX_PARTS || depth > MAX_DEPTH {
        return Err(format!("it has more than {MAX_PARTS} parts, or sequences more than {MAX_DEPTH} deep"));
    }
    let Some(name) = part.get("type").and_then(Value::as_str) else {
        return Err(format!("{} has no type", quote(&part.to_string())));
    };
    let text = |key: &str| part.get(key).and_then(Value::as_str).unwrap_or_default();
    Ok(match (kind, name) {
        (_, "Sequence") => {
            let list = part.get(kind.parts()).and_then(Value::as_array);
            let list = list.ok_or_else(|| format!("a Sequence without `{}`", kind.parts()))?;
            list.iter().try_fold(1.0, |all, part| Ok::<_, String>(all * of_part(part, kind, depth + 1, parts)?))?
        }
        (Kind::Normalizer | Kind::Decoder, "Replace") => replacement(part.get("pattern"), text("content"))?,
        (Kind::Normalizer, "Prepend") => 1.0 + text("prepend").len() as f64,
        (Kind::Normalizer, "Precompiled") => longest_replacement(text("precompiled_charsmap"))?,
        // Decompositions: U+0390 takes three times its bytes in NFD, U+FDFA eleven times in NFKD.
        (Kind::Normalizer, "NFKC" | "NFKD") => 11.0,
        (Kind::Normalizer, "NFC" | "NFD") => 3.0,
        (Kind::Normalizer, "Bert" | "BertNormalizer") => 6.0,
        (Kind::Normalizer, "Lowercase" | "ByteLevel") => 2.0,
        (Kind::Normalizer, "Strip" | "StripAccents" | "Nmt") => 1.0,
        (Kind::PreTokenizer, "ByteLevel") => 3.0,
        (Kind::PreTokenizer, "Metaspace") => 5.0,
        (Kind::PreTokenizer, "Split") => {
            pattern(part.get("pattern"))?;
            1.0
        }
        (Kind::PreTokenizer, "FixedLength") => match part.get("length").map(Value::as_u64) {
            None | Some(Some(1..)) => 1.0,
            Some(_) => return Err("the length of FixedLength must be at least 1".into()),
        },
        (
            Kind::PreTokenizer,
            "BertPreTokenizer" | "Delimiter" | "CharDelimiterSplit" | "Whitespace" | "WhitespaceSplit" | "Punctuation"
            | "Digits" | "UnicodeScripts",
        ) => 1.0,
        (Kind::Decoder, "BPEDecoder" | "WordPiece" | "CTC") => 2.0,
        (Kind::Decoder, "ByteLevel") => 3.0,
        (Kind::Decoder, "Metaspace" | "Fuse" | "Strip" | "ByteFallback") => 1.0,
        (_, other) => return Err(format!("the type \"{}\" is not supported", quote(other))),
    })
}

fn replacement(searched: Option<&Value>, content: &str) -> Result<f64, String> {
    pattern(searched)?;
    let literal = searched.and_then(|pattern| pattern.get("String")).and_then(Value::as_str).unwrap_or_default();
    Ok(match literal.len() {
        // A regular expression can match the empty text between any two characters.
        0 => 1.0 + content.len() as f64,
        bytes => (content.len() as f64 / bytes as f64).max(1.0),
    })
}

/// Validates the size of a pattern: `{"String": …}` or `{"Regex": …}`.
fn pattern(pattern: Option<&Value>) -> Result<(), String> {
    let text = |key: &str| pattern.and_then(|pattern| pattern.get(key)).and_then(Value::as_str);
    let (literal, regex) = (text("String").unwrap_or_default(), text("Regex").unwrap_or_default());
    if literal.len().max(regex.len()) > MAX_PATTERN {
        return Err(format!("a pattern is longer than {MAX_PATTERN} bytes"));
    }
    let mut repetitions = 1usize;
    for counted in regex.split('{').skip(1) {
        let numbers = counted.split('}').next().unwrap_or_default().split(',');
        let most = numbers.filter_map(|number| number.trim().parse::<usize>().ok()).max().unwrap_or(1);
        repetitions = repetitions.saturating_mul(most.max(1));
    }
    if repetitions > MAX_REPETITIONS {
        return Err(format!("the pattern \"{}\" repeats more than {MAX_REPETITIONS} times", quote(regex)));
    }
    Ok(())
}

/// The longest replacement of a character in a compiled SentencePiece character map: a trie, preceded by its size in
/// bytes, followed by zero-terminated texts.
fn longest_replacement(charsmap: &str) -> Result<f64, String> {
    let bytes = STANDARD.decode(charsmap).map_err(|e| format!("`precompiled_charsmap`: {e}"))?;
    let texts = bytes.split_first_chunk::<4>().and_then(|(size, rest)| {
        let trie = u32::from_le_bytes(*size) / 4 * 4;
        rest.get(usize::try_from(trie).ok()?..)
    });
    match texts {
        Some(texts) => Ok(texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0).max(1) as f64),
        None => Err("`precompiled_charsmap` is shorter than the trie that it announces".into()),
    }
}
