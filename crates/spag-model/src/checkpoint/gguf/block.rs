//! Blocks of quantised numbers: the formats of ggml from Q4_0 to Q8_K.

use super::{blocks_32, blocks_256};

/// A format of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checkpoint) enum Block {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
}

/// Computes with a format of blocks of `B` numbers in `N` bytes, known when this is compiled.
pub(in crate::checkpoint) trait WithBlocks {
    type Output;
    fn with<const N: usize, const B: usize>(self, read: impl Fn(&[u8; N], &mut [f32; B]) + Sync) -> Self::Output;
}

impl Block {
    /// The format with this number in ggml.
    pub(super) fn of(kind: u32) -> Option<Self> {
        Some(match kind {
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            9 => Self::Q8_1,
            10 => Self::Q2K,
            11 => Self::Q3K,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            15 => Self::Q8K,
            _ => return None,
        })
    }

    /// Calls `user` with the function that reads a block of this format.
    pub(in crate::checkpoint) fn dispatch<U: WithBlocks>(self, user: U) -> U::Output {
        match self {
            Self::Q4_0 => user.with(blocks_32::q4_0),
            Self::Q4_1 => user.with(blocks_32::q4_1),
            Self::Q5_0 => user.with(blocks_32::q5_0),
            Self::Q5_1 => user.with(blocks_32::q5_1),
            Self::Q8_0 => user.with(blocks_32::q8_0),
            Self::Q8_1 => user.with(blocks_32::q8_1),
            Self::Q2K => user.with(blocks_256::q2_k),
            Self::Q3K => user.with(blocks_256::q3_k),
            Self::Q4K => user.with(blocks_256::q4_k),
            Self::Q5K => user.with(blocks_256::q5_k),
            Self::Q6K => user.with(blocks_256::q6_k),
            Self::Q8K => user.with(blocks_256::q8_k),
        }
    }

    /// Numbers and bytes of a block.
    pub(super) fn size(self) -> (usize, usize) {
        struct Size;
        impl WithBlocks for Size {
            type Output = (usize, usize);
            fn with<const N: usize, const B: usize>(
                self,
                _: impl Fn(&[u8; N], &mut [f32; B]) + Sync,
            ) -> (usize, usize) {
                (B, N)
            }
        }
        self.dispatch(Size)
    }
}

/// The number in 16 bits at `at` of a block.
pub(super) fn f16_at<const N: usize>(block: &[u8; N], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
