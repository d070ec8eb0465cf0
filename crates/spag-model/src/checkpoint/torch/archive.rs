//! The directory of a zip archive written by `torch.save`: entries are stored, not compressed.
//!
//! Only the contents of such archives are accepted, and every size is validated against the file before use: a
//! general zip library allocates memory for the number of entries that a file claims.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use spag_io::quote;

use crate::checkpoint::format::Format;
use crate::error::{Error, Result};

/// Maximum bytes of the directory. An entry takes about a hundred.
const MAX_DIRECTORY: u64 = 16 << 20;
/// Sizes of the fixed parts of the archive's records.
const END: u64 = 22;
const LOCATOR: u64 = 20;
const WIDE_END: u64 = 56;
const ENTRY: usize = 46;
const HEADER: u64 = 30;
/// The flag of an encrypted entry.
const ENCRYPTED: u64 = 1;
/// The extra field with sizes of 64 bits.
const WIDE: u64 = 1;
const UNKNOWN: u64 = u32::MAX as u64;

/// An open archive.
pub(super) struct Archive {
    path: PathBuf,
    file: File,
    /// Bytes of the file.
    length: u64,
    /// The end of the entries.
    directory: u64,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    /// Offset of its header.
    header: u64,
    /// Bytes of its data.
    size: u64,
}

/// A little-endian number of `N` bytes at an offset of a sufficiently long record.
fn number<const N: usize>(record: &[u8], at: usize) -> u64 {
    record.iter().skip(at).take(N).rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl Archive {
    /// Reads and validates the directory of a file of `length` bytes.
    pub(super) fn open(path: PathBuf, file: File, length: u64) -> Result<Self> {
        let mut archive = Self { path, file, length, directory: length, entries: BTreeMap::new() };
        let cut = || archive.invalid("its end is not that of a zip archive; is it incomplete?");
        let end_at = length.checked_sub(END).ok_or_else(cut)?;
        let end = archive.read(end_at, END)?;
        if !end.starts_with(b"PK\x05\x06") || number::<2>(&end, 20) != 0 {
            return Err(archive.invalid("its end is not that of a zip archive; is it incomplete?"));
        }
        let (mut count, mut size, mut start) = (number::<2>(&end, 10), number::<4>(&end, 12), number::<4>(&end, 16));
        let mut limit = end_at;
        if count == u64::from(u16::MAX) || size == UNKNOWN || start == UNKNOWN {
            let record = archive.wide_end(end_at)?;
            (count, size, start) = (number::<8>(&record, 32), number::<8>(&record, 40), number::<8>(&record, 48));
            limit = end_at.saturating_sub(LOCATOR + WIDE_END);
        }
        if start.checked_add(size).is_none_or(|end| end > limit) || count > size / ENTRY as u64 {
            return Err(archive.invalid("its directory is not inside the file"));
        }
        if size > MAX_DIRECTORY {
            return Err(archive.invalid("its directory is too large for a file of weights"));
        }
        let directory = archive.read(start, size)?;
        archive.directory = start;
        let mut rest = directory.as_slice();
        for _ in 0..count {
            let (name, entry, after) = entry(rest).map_err(|reason| archive.invalid(&reason))?;
            if archive.entries.insert(name.clone(), entry).is_some() {
                return Err(archive.invalid(&format!("entry `{}` is there twice", quote(&name))));
            }
            rest = after;
        }
        Ok(archive)
    }

    /// The zip64 record of large archives, referenced by a locator before the end.
    fn wide_end(&self, end_at: u64) -> Result<Vec<u8>> {
        let invalid = || self.invalid("its end is not that of a zip archive with sizes of 64 bits");
        let locator = self.read(end_at.checked_sub(LOCATOR).ok_or_else(invalid)?, LOCATOR)?;
        if !locator.starts_with(b"PK\x06\x07") {
            return Err(invalid());
        }
        let record = self.read(number::<8>(&locator, 8), WIDE_END)?;
        if record.starts_with(b"PK\x06\x06") { Ok(record) } else { Err(invalid()) }
    }

    pub(super) fn invalid(&self, reason: &str) -> Error {
        Format::Torch.invalid(&self.path, reason.to_owned())
    }

    /// The names of all entries, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The offsets of an entry's header and data.
    pub(super) fn place(&self, name: &str) -> Result<Place> {
        let invalid = |what: &str| self.invalid(&format!("entry `{}` {what}", quote(name)));
        let Some(entry) = self.entries.get(name) else { return Err(invalid("is missing")) };
        let header = self.read(entry.header, HEADER)?;
        let (name_length, extra) = (number::<2>(&header, 26), number::<2>(&header, 28));
        let same = name_length == name.len() as u64
            && self.read(entry.header + HEADER, name_length).is_ok_and(|found| found == name.as_bytes());
        if !header.starts_with(b"PK\x03\x04") || !same {
            return Err(invalid("is not where the directory says"));
        }
        let start = entry.header + HEADER + name_length + extra;
        match start.checked_add(entry.size) {
            Some(end) if end <= self.directory => Ok(Place { header: entry.header, data: start..end }),
            _ => Err(invalid("reaches beyond the end of the archive")),
        }
    }

    /// An entry's data, of at most `limit` bytes.
    pub(super) fn contents(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let Place { data, .. } = self.place(name)?;
        let size = data.end - data.start;
        if size > limit {
            let reason = format!("entry `{}` has {size} bytes, and at most {limit} are read", quote(name));
            return Err(self.invalid(&reason));
        }
        self.read(data.start, size)
    }

    fn read(&self, at: u64, size: u64) -> Result<Vec<u8>> {
        let early = || self.invalid("it ends too early; is it incomplete?");
        if at.checked_add(size).is_none_or(|end| end > self.length) {
            return Err(early());
        }
        let mut file = &self.file;
        let mut bytes = Vec::new();
        let io = spag_io::Error::io(&self.path);
        file.seek(SeekFrom::Start(at)).and_then(|_| file.take(size).read_to_end(&mut bytes)).map_err(io)?;
        if bytes.len() as u64 != size {
            return Err(early());
        }
        Ok(bytes)
    }
}

/// Offsets of an entry.
pub(super) struct Place {
    /// Its header.
    pub(super) header: u64,
    /// Its data.
    pub(super) data: Range<u64>,
}

/// Takes an entry from the directory; returns it with its name and the rest of the directory.
fn entry(directory: &[u8]) -> std::result::Result<(String, Entry, &[u8]), String> {
    let incomplete = || "its directory is damaged".to_owned();
    let (fixed, rest) = directory.split_at_checked(ENTRY).ok_or_else(incomplete)?;
    if !fixed.starts_with(b"PK\x01\x02") {
        return Err(incomplete());
    }
    let part = |rest: &mut &[u8], at| -> std::result::Result<Vec<u8>, String> {
        let (part, after) = rest.split_at_checked(number::<2>(fixed, at) as usize).ok_or_else(incomplete)?;
        *rest = after;
        Ok(part.to_vec())
    };
    let mut rest = rest;
    let (name, extra, _) = (part(&mut rest, 28)?, part(&mut rest, 30)?, part(&mut rest, 32)?);
    let name = String::from_utf8(name).map_err(|_| "the name of an entry is not text".to_owned())?;
    if number::<2>(fixed, 8) & ENCRYPTED != 0 {
        return Err(format!("entry `{}` is encrypted", quote(&name)));
    }
    let mut wide = wide_numbers(&extra);
    let mut field = |at| match number::<4>(fixed, at) {
        UNKNOWN => wide.next().ok_or_else(incomplete),
        known => Ok(known),
    };
    let (size, stored, header) = (field(24)?, field(20)?, field(42)?);
    if number::<2>(fixed, 10) != 0 || stored != size {
        return Err(format!("entry `{}` is compressed; torch.save stores entries as they are", quote(&name)));
    }
    // Offsets near the maximum of their type are outside of any file.
    if header > i64::MAX as u64 {
        return Err(incomplete());
    }
    Ok((name, Entry { header, size }, rest))
}

/// The 64-bit numbers in an entry's extra fields, for fields that do not fit into 32 bits, in record order.
fn wide_numbers(mut extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut found = Vec::new();
    while let Some((head, rest)) = extra.split_at_checked(4) {
        let Some((field, rest)) = rest.split_at_checked(number::<2>(head, 2) as usize) else { break };
        if number::<2>(head, 0) == WIDE {
            found = field.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        }
        extra = rest;
    }
    found.into_iter()
}
