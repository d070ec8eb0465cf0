//! Quantised weight formats of ggml.

use half::f16;
use rayon::prelude::*;

use super::scales::{OfBlock, OfBlockWithMinimum, OfSixBits, OfSuperBlock, Scales};

/// Weights per block.
pub(super) const BLOCK: usize = 32;
/// Weights per superblock, whose blocks share scales in the K formats.
pub(super) const SUPERBLOCK: usize = 256;

/// A number format of quantised weights, with ggml's name. Blocks are consecutive weights of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum BlockFormat {
    /// 8 bits per weight: w = d·q with q from -127 to 127; an f16 scale d per 32 weights.
    #[serde(rename = "q8_0")]
    Q8_0,
    /// 4 bits per weight: w = d·(q - 8); an f16 scale per 32 weights.
    #[serde(rename = "q4_0")]
    Q4_0,
    /// 4 bits per weight: w = d·q + m; an f16 scale and minimum per 32 weights.
    #[serde(rename = "q4_1")]
    Q4_1,
    /// 5 bits per weight: w = d·(q - 16); an f16 scale per 32 weights.
    #[serde(rename = "q5_0")]
    Q5_0,
    /// 4 bits per weight: w = d·s·q - m·t; f16 d and m per 256 weights, 6-bit s and t per 32.
    #[serde(rename = "q4_k")]
    Q4K,
    /// 6 bits per weight: w = d·s·(q - 32); f16 d per 256 weights, 8-bit s per 16.
    #[serde(rename = "q6_k")]
    Q6K,
}

impl BlockFormat {
    /// Weights per block. The input size of a quantised layer is a multiple of it.
    pub const BLOCK: usize = BLOCK;
    /// All formats.
    pub const ALL: [Self; 6] = [Self::Q8_0, Self::Q6K, Self::Q5_0, Self::Q4_1, Self::Q4_0, Self::Q4K];

    /// Formats with kernels.
    pub const ON_GPUS: [Self; 2] = [Self::Q8_0, Self::Q4_0];

    /// ggml's name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4_1 => "q4_1",
            Self::Q5_0 => "q5_0",
            Self::Q4K => "q4_k",
            Self::Q6K => "q6_k",
        }
    }

    /// The format for layers with `inputs` inputs: this one, or llama.cpp's fallback if 256 does not divide `inputs` (q5_0 for
    /// q4_k, q8_0 for q6_k). `None` if 32 does not divide it.
    pub fn of_inputs(self, inputs: usize) -> Option<Self> {
        let divides = |size: usize| inputs > 0 && inputs.is_multiple_of(size);
        match self {
            _ if divides(self.span()) => Some(self),
            _ if !divides(BLOCK) => None,
            Self::Q4K => Some(Self::Q5_0),
            Self::Q6K => Some(Self::Q8_0),
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 => None,
        }
    }

    /// Consecutive weights that share a scale.
    pub(super) fn span(self) -> usize {
        match self {
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 => BLOCK,
            Self::Q4K | Self::Q6K => SUPERBLOCK,
        }
    }

    /// Byte offsets of the f16 numbers of a span.
    fn halves(self) -> &'static [usize] {
        match self {
            Self::Q8_0 | Self::Q4_0 | Self::Q5_0 => &[0],
            Self::Q4_1 | Self::Q4K => &[0, 2],
            Self::Q6K => &[208],
        }
    }

    /// The first non-finite weight of weights in ggml's file format.
    pub fn first_not_finite(self, bytes: &[u8]) -> Option<usize> {
        let half = |span: &[u8], at: usize| f16::from_le_bytes([span[at], span[at + 1]]);
        let is_finite = |span: &[u8]| self.halves().iter().all(|at| half(span, *at).is_finite());
        let spans = bytes.par_chunks_exact(self.stored_bytes());
        spans.position_first(|span| !is_finite(span)).map(|span| span * self.span())
    }

    /// Bytes per span (the consecutive weights that share a scale: 32, or 256 in q4_k and q6_k) in a ggml file.
    pub fn stored_bytes(self) -> usize {
        match self {
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q4K => 144,
            Self::Q6K => 210,
        }
    }
}

impl std::fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for BlockFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown format of quantised weights \"{text}\"; expected one of {names}")
        })
    }
}

/// A format as kernels use it: weight = scale·(code - OFFSET) + minimum, with unsigned codes.
pub(super) trait Format {
    /// The format's identifier.
    const NAME: BlockFormat;
    /// The code of zero.
    const OFFSET: i32;
    /// Bits per code, which is also the number of cache lines per block of 16 rows.
    const BITS: usize;
    /// Blocks that share scales.
    const SPAN: usize;
    /// Parts of a block with separate scales.
    const PARTS: usize;
    /// The scales of a span's blocks, for 16 rows.
    type Scales: Scales;
}

/// Declares formats.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident, $offset:literal, $bits:literal, $span:literal, $parts:literal, $scales:ty;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;
        impl Format for $name {
            const NAME: BlockFormat = BlockFormat::$name;
            const OFFSET: i32 = $offset;
            const BITS: usize = $bits;
            const SPAN: usize = $span;
            const PARTS: usize = $parts;
            type Scales = $scales;
        }
    )*};
}

formats! {
    /// [`BlockFormat::Q8_0`].
    Q8_0, 128, 8, 1, 1, OfBlock;
    /// [`BlockFormat::Q4_0`].
    Q4_0, 8, 4, 1, 1, OfBlock;
    /// [`BlockFormat::Q4_1`].
    Q4_1, 0, 4, 1, 1, OfBlockWithMinimum;
    /// [`BlockFormat::Q5_0`].
    Q5_0, 16, 5, 1, 1, OfBlock;
    /// [`BlockFormat::Q4K`].
    Q4K, 0, 4, 8, 1, OfSuperBlock;
    /// [`BlockFormat::Q6K`].
    Q6K, 32, 6, 8, 2, OfSixBits;
}

/// Calls `$call` with the type `F` of a [`BlockFormat`].
macro_rules! with_format {
    ($format:expr, $F:ident => $call:expr) => {
        match $format {
            BlockFormat::Q8_0 => {
                type $F = format::Q8_0;
                $call
            }
            BlockFormat::Q4_0 => {
                type $F = format::Q4_0;
                $call
            }
            BlockFormat::Q4_1 => {
                type $F = format::Q4_1;
                $call
            }
            BlockFormat::Q5_0 => {
                type $F = format::Q5_0;
                $call
            }
            BlockFormat::Q4K => {
                type $F = format::Q4K;
                $call
            }
            BlockFormat::Q6K => {
                type $F = format::Q6K;
                $call
            }
        }
    };
}
pub(super) use with_format;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_ggml() {
        for format in BlockFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert_eq!(serde_json::to_value(format).unwrap(), format.name());
        }
        let error = "Q4_K_M".parse::<BlockFormat>().unwrap_err();
        assert_eq!(
            error,
            "unknown format of quantised weights \"Q4_K_M\"; expected one of q8_0, q6_k, q5_0, q4_1, q4_0, q4_k"
        );
    }

    #[test]
    fn k_formats_are_replaced_where_256_does_not_divide() {
        for (format, inputs, expected) in [
            (BlockFormat::Q4K, 512, Some(BlockFormat::Q4K)),
            (BlockFormat::Q4K, 576, Some(BlockFormat::Q5_0)),
            (BlockFormat::Q6K, 576, Some(BlockFormat::Q8_0)),
            (BlockFormat::Q4_0, 576, Some(BlockFormat::Q4_0)),
            (BlockFormat::Q4K, 172, None),
            (BlockFormat::Q8_0, 0, None),
        ] {
            assert_eq!(format.of_inputs(inputs), expected, "{format} for {inputs}");
        }
    }
}
