//! Event files, read back by a decoder that shares no code with the writer.

use std::{error::Error, fs, path::Path};

use spag_train::EventWriter;

type Outcome = Result<(), Box<dyn Error>>;

/// An `Event` message, with the fields that are looked at.
#[derive(Debug, Default, PartialEq)]
struct Event {
    wall_time: f64,
    step: u64,
    version: Option<String>,
    session: Option<u64>,
    scalars: Vec<(String, f32)>,
}

/// CRC-32C bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// As TFRecord writes it.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (head, tail) = bytes.split_at_checked(count).ok_or("the file ends inside a record")?;
    *bytes = tail;
    Ok(head)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a varint has more than 64 bits".into())
}

/// A message's fields: number and raw value; varints as 8 bytes.
fn fields(mut message: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, String> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            0 => varint(&mut message)?.to_le_bytes().to_vec(),
            1 => take(&mut message, 8)?.to_vec(),
            2 => {
                let length = varint(&mut message)? as usize;
                take(&mut message, length)?.to_vec()
            }
            5 => take(&mut message, 4)?.to_vec(),
            other => return Err(format!("wire type {other}")),
        };
        found.push((key >> 3, value));
    }
    Ok(found)
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    bytes.try_into().expect("8 bytes")
}

fn event(message: &[u8]) -> Result<Event, String> {
    let mut event = Event::default();
    for (number, value) in fields(message)? {
        match number {
            1 => event.wall_time = f64::from_le_bytes(eight(&value)),
            2 => event.step = u64::from_le_bytes(eight(&value)),
            3 => event.version = Some(String::from_utf8(value).map_err(|error| error.to_string())?),
            5 => {
                for (_, scalar) in fields(&value)? {
                    let parts = fields(&scalar)?;
                    let [(1, tag), (2, simple)] = &parts[..] else { return Err(format!("a value of {parts:?}")) };
                    let tag = String::from_utf8(tag.clone()).map_err(|error| error.to_string())?;
                    event.scalars.push((tag, f32::from_le_bytes(simple[..].try_into().expect("4 bytes"))));
                }
            }
            7 => event.session = fields(&value)?.first().map(|(_, status)| u64::from_le_bytes(eight(status))),
            other => return Err(format!("field {other}")),
        }
    }
    Ok(event)
}

fn read(path: &Path) -> Result<Vec<Event>, Box<dyn Error>> {
    let file = fs::read(path)?;
    let mut bytes = &file[..];
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let length = take(&mut bytes, 8)?;
        assert_eq!(take(&mut bytes, 4)?, masked_crc(length).to_le_bytes(), "CRC of the length");
        let message = take(&mut bytes, u64::from_le_bytes(eight(length)) as usize)?;
        assert_eq!(take(&mut bytes, 4)?, masked_crc(message).to_le_bytes(), "CRC of the message");
        events.push(event(message)?);
    }
    Ok(events)
}

#[test]
fn the_decoder_s_crc_is_the_published_one() {
    // RFC 3720, appendix B.4: 32 bytes of zeros.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
}

#[test]
fn scalars_are_read_back() -> Outcome {
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("imitation/runs");
    let mut writer = EventWriter::create(&dir, 0)?;
    writer.scalars(1, &[("train/loss", 2.5), ("train/grad_norm", 0.0)])?;
    writer.scalars(300, &[("train/loss", 1.25)])?;

    let events = read(writer.path())?;
    assert_eq!(events.len(), 4);
    assert_eq!(events[0].version.as_deref(), Some("brain.Event:2"));
    assert_eq!((events[0].step, events[0].session, events[0].scalars.len()), (0, None, 0));
    assert_eq!((events[2].step, events[3].step), (1, 300));
    assert_eq!(events[2].scalars, [("train/loss".to_owned(), 2.5), ("train/grad_norm".to_owned(), 0.0)]);
    assert_eq!(events[3].scalars, [("train/loss".to_owned(), 1.25)]);
    // Some day after 2020, and in order.
    assert!(events[0].wall_time > 1.577e9);
    assert!(events.is_sorted_by_key(|event| event.wall_time));
    Ok(())
}

#[test]
fn a_resumed_run_drops_the_steps_that_it_takes_again() -> Outcome {
    let folder = tempfile::tempdir()?;
    // From the start, too: a run that was stopped before its first checkpoint has logged steps.
    for start in [0, 8] {
        let writer = EventWriter::create(folder.path(), start)?;
        let events = read(writer.path())?;
        assert_eq!(events.len(), 2);
        assert_eq!((events[1].session, events[1].step), (Some(1), start as u64 + 1));
    }
    Ok(())
}

#[test]
fn values_that_are_not_finite_are_left_out() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut writer = EventWriter::create(folder.path(), 0)?;
    writer.scalars(1, &[("nan", f64::NAN), ("loss", -1.0), ("infinite", f64::INFINITY), ("too large", 1e300)])?;
    writer.scalars(2, &[("nan", f64::NAN)])?;
    writer.scalars(3, &[])?;
    let events = read(writer.path())?;
    assert_eq!(events.len(), 3);
    assert_eq!(events[2].scalars, [("loss".to_owned(), -1.0)]);
    Ok(())
}

#[test]
fn every_writer_has_a_file_of_its_own() -> Outcome {
    let folder = tempfile::tempdir()?;
    let first = EventWriter::create(folder.path(), 0)?;
    let second = EventWriter::create(folder.path(), 0)?;
    assert_ne!(first.path(), second.path());
    let name = first.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let rest = name.strip_prefix("events.out.tfevents.").ok_or("another prefix")?;
    assert!(rest.split('.').next().is_some_and(|seconds| seconds.parse::<u64>().is_ok()), "{name}");
    assert!(rest.ends_with(&format!(".{}.0", std::process::id())), "{name}");
    Ok(())
}

#[test]
fn errors_name_the_path() -> Outcome {
    let folder = tempfile::tempdir()?;
    let taken = folder.path().join("taken");
    fs::write(&taken, "a file, not a folder")?;
    let error = EventWriter::create(&taken, 0).expect_err("a file is no folder").to_string();
    assert!(error.contains(&taken.display().to_string()), "{error}");
    Ok(())
}
