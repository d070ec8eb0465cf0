//! `tokenizer.model` files that are damaged, too large, or of an unsupported kind.

use std::fs;
use std::time::{Duration, Instant};

use crate::piece_model::{BYTE, NORMAL, PieceModel, UNKNOWN, field};
use spag_model::Tokenizer;
use spag_model::tokenizer::SpecialIds;
use spag_tests::fixture;
use tempfile::TempDir;

/// Loads a file with these contents, and uses it if it loads.
fn load(bytes: &[u8]) -> Result<Tokenizer, String> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tokenizer.model");
    fs::write(&path, bytes).unwrap();
    let tokenizer = Tokenizer::from_file(&path, SpecialIds::default()).map_err(|error| error.to_string())?;
    for text in ["", "The horse", "caf\u{e9} \u{1F40E}\n\t", "<s></s><unk><0x41>"] {
        if let Ok(ids) = tokenizer.encode_text(text) {
            tokenizer.decode(&ids).map_err(|error| error.to_string())?;
        }
    }
    let _ = tokenizer.decode(&[0, 1, 2, 3, u32::MAX]);
    Ok(tokenizer)
}

/// The error of loading a model.
fn refused(model: &PieceModel) -> String {
    let error = load(&model.to_bytes()).expect_err("the file is refused");
    assert!(error.contains("tokenizer.model") && error.len() < 2000, "{error}");
    error
}

fn model() -> PieceModel {
    PieceModel::new(["▁", "a", "b", "ab"])
}

#[test]
fn damaged_files_are_errors() {
    let whole = fs::read(fixture("families/llama2-bin/tokenizer.model")).unwrap();
    load(&whole).unwrap();
    for length in (0..whole.len()).step_by(7) {
        let _ = load(&whole[..length]);
    }
    assert!(load(&[]).unwrap_err().contains("not a valid SentencePiece model"));
    for at in (0..whole.len()).step_by(5) {
        let mut changed = whole.clone();
        changed[at] = changed[at].wrapping_add(0x81);
        let _ = load(&changed);
    }
    // Another library's ranks, a length beyond the file, an unterminated number, nested groups.
    let text = "IQ== 0\nIg== 1\nIw== 2\n";
    for bytes in [text.as_bytes(), &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 40], &[0x0b; 100_000]] {
        let error = load(bytes).unwrap_err();
        assert!(error.contains("tokenizer.model: not a valid SentencePiece model"), "{error}");
    }
}

#[test]
fn kinds_and_settings_that_are_not_supported_are_named() {
    for (kind, name) in [(1, "Unigram"), (3, "Word"), (4, "Char"), (9, "unknown")] {
        let error = refused(&PieceModel { kind, ..model() });
        assert!(error.contains(&format!("of kind {name}")) && error.contains("only kind BPE"), "{error}");
    }
    // treat_whitespace_as_suffix; escape_whitespaces.
    assert!(refused(&PieceModel { trainer: vec![0xc0, 0x01, 1], ..model() }).contains("treat_whitespace_as_suffix"));
    assert!(refused(&PieceModel { normalizer: vec![0x28, 0], ..model() }).contains("escape blanks"));
}

#[test]
fn pieces_that_cannot_be_are_named() {
    let with = |text: &str, score: f32, kind: u8| {
        let mut model = model();
        model.pieces.push((text.to_owned(), score, kind));
        refused(&model)
    };
    assert!(with("ab", -9.0, NORMAL).contains("piece 263, \"ab\", is there twice"));
    assert!(with("", -9.0, NORMAL).contains("piece 263, \"\", has no text"));
    assert!(with("c", f32::NAN, NORMAL).contains("no finite number"));
    assert!(with("c", f32::INFINITY, NORMAL).contains("no finite number"));
    assert!(with("<0x1>", 0.0, BYTE).contains("<0x1>"));
    assert!(with("c", -9.0, 9).contains("a type that is not known"));
    assert!(with("<?>", 0.0, UNKNOWN).contains("2 unknown pieces"));
    assert!(with(&"x".repeat(1 << 20), -9.0, NORMAL).contains("at most 2048"));
    let mut model = model();
    model.pieces.retain(|(_, _, kind)| *kind != UNKNOWN);
    assert!(refused(&model).contains("0 unknown pieces"));
    model = PieceModel::new(["a"]);
    model.pieces.remove(100);
    assert!(refused(&model).contains("255 of 256 bytes"));
    load(&PieceModel { byte_fallback: 0, ..model }.to_bytes()).unwrap();
}

#[test]
fn sizes_are_limited_before_anything_is_built() {
    let began = Instant::now();
    // Ten million pieces of two bytes each.
    let error = load(&[0x0a, 0x00].repeat(10_000_000)).unwrap_err();
    assert!(error.contains("20000000 bytes"), "{error}");
    let error = load(&[[0x0a, 0x00].repeat(4_000_000), field(2, &[0x18, 2])].concat()).unwrap_err();
    assert!(error.contains("pieces"), "{error}");
    // Every part of every piece is a piece: two million merges of a thousand bytes each.
    let texts: Vec<String> = (1..2048).map(|length| "a".repeat(length)).collect();
    assert!(refused(&PieceModel::new(texts.iter().map(String::as_str))).contains("too long together"));
    // A character map that leaves its trie, or is shorter than it.
    for charsmap in [b"\x04\0\0\0\xff\xff\xff\x7faa\0".to_vec(), b"\xff\xff\xff\xff".to_vec()] {
        let _ = load(&PieceModel { charsmap, ..model() }.to_bytes());
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
