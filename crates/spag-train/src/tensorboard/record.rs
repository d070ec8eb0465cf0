//! One record of an event file: TensorFlow's TFRecord framing around an `Event` message.
//!
//! Only the fields needed here of TensorFlow's `event.proto` and `summary.proto`, with their numbers.

use prost::Message;

/// In this version a session's start drops later steps of earlier sessions.
const FILE_VERSION: &str = "brain.Event:2";

/// `SessionLog.SessionStatus.START`.
const SESSION_START: i32 = 1;

/// Added to a rotated CRC, so that a CRC over data that holds CRCs stays a good check (TFRecord's masking).
const CRC_MASK_DELTA: u32 = 0xa282_ead8;

/// One entry of an event file.
#[derive(Message)]
pub(super) struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    // Members of one `oneof`: at most one is set.
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session_log: Option<SessionLog>,
}

#[derive(Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

/// `Summary.Value`.
#[derive(Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    // Optional, so that a 0 is written too.
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

#[derive(Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

impl Event {
    /// The first entry of every file.
    pub(super) fn version(wall_time: f64) -> Self {
        Self { wall_time, file_version: Some(FILE_VERSION.to_owned()), ..Self::default() }
    }

    /// Tells readers to drop entries of earlier files at `step` or later.
    pub(super) fn restart(wall_time: f64, step: usize) -> Self {
        let session_log = Some(SessionLog { status: SESSION_START });
        Self { wall_time, step: as_int64(step), session_log, ..Self::default() }
    }

    /// Those of `values` that are finite as 32-bit floats; `None` if there are none. TensorBoard cannot draw others.
    pub(super) fn scalars(wall_time: f64, step: usize, values: &[(&str, f64)]) -> Option<Self> {
        let value: Vec<_> = values
            .iter()
            .map(|(tag, value)| Scalar { tag: (*tag).to_owned(), simple_value: Some(*value as f32) })
            .filter(|scalar| scalar.simple_value.is_some_and(f32::is_finite))
            .collect();
        let summary = (!value.is_empty()).then_some(Summary { value })?;
        Some(Self { wall_time, step: as_int64(step), summary: Some(summary), ..Self::default() })
    }

    /// Length, the length's CRC, message, the message's CRC.
    pub(super) fn framed(&self) -> Vec<u8> {
        let message = self.encode_to_vec();
        let length = (message.len() as u64).to_le_bytes();
        let mut record = Vec::with_capacity(message.len() + 16);
        record.extend_from_slice(&length);
        record.extend_from_slice(&masked_crc(&length).to_le_bytes());
        record.extend_from_slice(&message);
        record.extend_from_slice(&masked_crc(&message).to_le_bytes());
        record
    }
}

fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(CRC_MASK_DELTA)
}

fn as_int64(step: usize) -> i64 {
    i64::try_from(step).unwrap_or(i64::MAX)
}
