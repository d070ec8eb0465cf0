//! Sums of buffers, in rank order.

use std::io;

use half::bf16;

/// Number formats, with NCCL's numbers (`ncclDataType_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    U8 = 1,
    F32 = 7,
    F64 = 8,
    Bf16 = 9,
}

impl Format {
    pub(crate) fn find(code: i32) -> Option<Self> {
        [Self::U8, Self::F32, Self::F64, Self::Bf16].into_iter().find(|format| *format as i32 == code)
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// The sum of buffers of the same length. Formats below 32 bits are accumulated in f32 and rounded once.
    pub(super) fn sum(self, buffers: &[Vec<u8>]) -> io::Result<Vec<u8>> {
        let add = |at: usize| -> [u8; 8] {
            let mut bytes = [0; 8];
            match self {
                Self::F32 => {
                    let sum = numbers(buffers, at).map(f32::from_le_bytes).fold(0., |sum: f32, x| sum + x);
                    bytes[..4].copy_from_slice(&sum.to_le_bytes());
                }
                Self::F64 => {
                    bytes = numbers(buffers, at).map(f64::from_le_bytes).fold(0., |sum, x| sum + x).to_le_bytes()
                }
                Self::Bf16 => {
                    let sum =
                        numbers(buffers, at).map(|b| bf16::from_le_bytes(b).to_f32()).fold(0., |sum: f32, x| sum + x);
                    bytes[..2].copy_from_slice(&bf16::from_f32(sum).to_le_bytes());
                }
                Self::U8 => bytes[0] = numbers(buffers, at).fold(0u8, |sum, [x]| sum.wrapping_add(x)),
            }
            bytes
        };
        let length = buffers.first().map_or(0, Vec::len);
        if buffers.iter().any(|buffer| buffer.len() != length) {
            return Err(io::Error::other("buffers of different lengths"));
        }
        let size = self.size();
        Ok((0..length / size).flat_map(|i| add(i * size).into_iter().take(size)).collect())
    }
}

/// The bytes of a number in every buffer.
fn numbers<const N: usize>(buffers: &[Vec<u8>], at: usize) -> impl Iterator<Item = [u8; N]> + '_ {
    buffers.iter().filter_map(move |buffer| buffer[at..].first_chunk().copied())
}
