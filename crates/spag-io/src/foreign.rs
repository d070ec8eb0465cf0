//! Detects files whose content does not match their name: Git LFS pointers, compressed files, and text in another encoding.

use std::fs::File;
use std::io::Read;
use std::path::Path;

const UTF_16: &str = "this file is UTF-16; save it as UTF-8";

/// What a supposed text file really is, judged by its first bytes, with advice.
pub fn foreign_text(begin: &[u8]) -> Option<&'static str> {
    // ASCII in UTF-16 without a byte order mark.
    let is_wide = matches!(begin, [0, 1..=0x7f, ..] | [1..=0x7f, 0, ..]);
    foreign_small(begin).or(is_wide.then_some(UTF_16))
}

/// The same for a small file, which may be binary.
pub(crate) fn foreign_small(begin: &[u8]) -> Option<&'static str> {
    let is_wide = begin.starts_with(b"\xff\xfe") || begin.starts_with(b"\xfe\xff");
    let is_zip = begin.starts_with(b"PK\x03\x04");
    let other = is_wide.then_some(UTF_16).or(is_zip.then_some("this is a zip archive; unpack it first"));
    other.or_else(|| foreign(begin))
}

/// What a file that failed to parse really is, with advice. Only for files that failed: the length field of a safetensors file
/// may look like gzip's magic number.
pub fn foreign_file(path: &Path) -> Option<&'static str> {
    let mut begin = Vec::new();
    File::open(path).ok()?.take(64).read_to_end(&mut begin).ok()?;
    foreign(&begin)
}

fn foreign(begin: &[u8]) -> Option<&'static str> {
    const MARKS: [(&[u8], &str); 4] = [
        (
            b"version https://git-lfs.github.com/spec/",
            "this is a Git LFS pointer instead of the file; run `git lfs pull` in its repository",
        ),
        (b"\x1f\x8b", "this file is compressed by gzip; unpack it first (gunzip)"),
        (b"\x28\xb5\x2f\xfd", "this file is compressed by zstd; unpack it first (unzstd)"),
        (b"\xfd7zXZ\0", "this file is compressed by xz; unpack it first (unxz)"),
    ];
    MARKS.iter().find(|(mark, _)| begin.starts_with(mark)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use crate::{ChunkReader, Classify, ErrorClass, read_text, read_whole};

    #[test]
    fn readers_of_text_name_what_a_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        let utf_16: Vec<u8> = "[1]".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
        for (bytes, expected) in [
            (&lfs[..], "git lfs pull"),
            (b"\x1f\x8b\x08\0", "gunzip"),
            (b"PK\x03\x04\x14", "zip archive"),
            (&[b"\xff\xfe", &utf_16[..]].concat(), "save it as UTF-8"),
            (&utf_16, "save it as UTF-8"),
            (b"\0[\0]", "save it as UTF-8"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            // Without a byte order mark, it may be a binary file.
            let is_binary = bytes.starts_with(b"[\0") || bytes.starts_with(b"\0[");
            assert_eq!(read_whole(&path, 1 << 20).is_ok(), is_binary);
            let errors =
                [read_text(&path, 1 << 20).map(drop).unwrap_err(), ChunkReader::open(&path).map(drop).unwrap_err()];
            for error in errors {
                assert!(error.to_string().contains("rows.json: ") && error.to_string().contains(expected), "{error}");
                assert_eq!(error.class(), ErrorClass::BadInput);
            }
        }
        for text in ["", "[", "\u{feff}[]", "versions", "é"] {
            std::fs::write(&path, text).unwrap();
            assert!(read_whole(&path, 9).is_ok() && ChunkReader::open(&path).is_ok(), "{text:?}");
        }
    }
}
