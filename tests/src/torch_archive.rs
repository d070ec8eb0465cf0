//! Writes archives and pickles like those of `torch.save`.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

/// A zip archive of stored entries.
pub fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        directory.extend(record(name, data.len() as u32, out.len() as u32, &[]));
        out.extend(header(name));
        out.extend(*data);
    }
    let start = out.len() as u32;
    out.extend(&directory);
    let count = (entries.len() as u16).to_le_bytes();
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}

/// A zip archive with numbers of 64 bits, with entries at given offsets of a sparse file.
pub fn archive_at(mut file: &File, entries: &[(u64, &str, &[u8])]) {
    let mut directory = Vec::new();
    for (at, name, data) in entries {
        let wide = [(data.len() as u64).to_le_bytes(), (data.len() as u64).to_le_bytes(), at.to_le_bytes()].concat();
        let extra = [&[7, 0, 2, 0, 9, 9, 1, 0, 24, 0], &wide[..]].concat();
        directory.extend(record(name, u32::MAX, u32::MAX, &extra));
        file.seek(SeekFrom::Start(*at)).unwrap();
        file.write_all(&[&header(name), *data].concat()).unwrap();
    }
    let start = file.stream_position().unwrap();
    let end = start + directory.len() as u64;
    let count = (entries.len() as u64).to_le_bytes();
    directory.extend(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    directory.extend([count, count, (end - start).to_le_bytes(), start.to_le_bytes()].concat());
    directory.extend(b"PK\x06\x07\0\0\0\0");
    directory.extend(end.to_le_bytes());
    directory.extend([1, 0, 0, 0]);
    directory.extend(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0");
    file.write_all(&directory).unwrap();
}

fn header(name: &str) -> Vec<u8> {
    let mut header = b"PK\x03\x04".to_vec();
    header.resize(26, 0);
    header.extend((name.len() as u16).to_le_bytes());
    header.extend([0; 2]);
    header.extend(name.as_bytes());
    header
}

fn record(name: &str, size: u32, at: u32, extra: &[u8]) -> Vec<u8> {
    let mut record = b"PK\x01\x02".to_vec();
    record.resize(20, 0);
    record.extend([size.to_le_bytes(), size.to_le_bytes()].concat());
    record.extend((name.len() as u16).to_le_bytes());
    record.extend((extra.len() as u16).to_le_bytes());
    record.resize(42, 0);
    record.extend(at.to_le_bytes());
    record.extend(name.as_bytes());
    record.extend(extra);
    record
}

/// The pickle of f32 tensors (name, shape, strides, elements of the storage), all of storage 0.
pub fn pickled(tensors: &[(&str, &[u64], &[u64], u64)]) -> Vec<u8> {
    let long = |value: u64| [&[0x8a, 8], &value.to_le_bytes()[..]].concat();
    let text = |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let sizes =
        |sizes: &[u64]| [b"(".to_vec(), sizes.iter().flat_map(|size| long(*size)).collect(), b"t".to_vec()].concat();
    let mut pickle = b"\x80\x02}(".to_vec();
    for (name, shape, strides, elements) in tensors {
        pickle.extend(text(name));
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        pickle.extend(text("storage"));
        pickle.extend(b"ctorch\nFloatStorage\n");
        pickle.extend([text("0"), text("cpu"), long(*elements)].concat());
        pickle.extend(b"tQK\0");
        pickle.extend([sizes(shape), sizes(strides)].concat());
        pickle.extend(b"\x89ccollections\nOrderedDict\n)RtR");
    }
    pickle.extend(b"u.");
    pickle
}
