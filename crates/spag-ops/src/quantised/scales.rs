//! Scales of a span for 16 rows, as kernels load them: register lanes are rows.

use half::f16;

use super::panel::PANEL;
use super::span::Span;

/// f16 numbers of 16 rows, as bits.
pub(super) type Halves = [u16; PANEL];
/// Integers of 16 rows.
pub(super) type Factors = [i8; PANEL];

/// Scales of a span's blocks. A scale is [`Scales::scale`] times its factor, and so is a minimum; both products are exact in
/// f32.
pub(super) trait Scales: Copy + Send + Sync + 'static {
    /// The scales of zero rows.
    const ZERO: Self;

    /// Wraps a matrix's scales of this kind.
    fn all(scales: Vec<Self>) -> AllScales;

    /// A matrix's scales; empty if they are of another kind.
    fn of(all: &AllScales) -> &[Self];

    /// Sets the scales of a row.
    fn set(&mut self, row: usize, span: &Span);

    /// The common part of all scales of the span.
    fn scale(&self) -> &Halves;

    /// The factor of part `part` of block `block`; `None` means 1.
    fn factor(&self, block: usize, part: usize) -> Option<&Factors>;

    /// The common part of the span's minimums, if the format has minimums, and a block's factor, as in
    /// [`Scales::factor`].
    fn minimum(&self, block: usize) -> Option<(&Halves, Option<&Factors>)>;

    /// The scale of a part of a block of a row.
    #[inline(always)]
    fn scale_of(&self, row: usize, block: usize, part: usize) -> f32 {
        number(self.scale(), self.factor(block, part), row)
    }

    /// The minimum of a block of a row.
    #[inline(always)]
    fn minimum_of(&self, row: usize, block: usize) -> Option<f32> {
        self.minimum(block).map(|(halves, factors)| number(halves, factors, row))
    }
}

#[inline(always)]
fn number(halves: &Halves, factors: Option<&Factors>, row: usize) -> f32 {
    let number = f16::from_bits(halves[row]).to_f32();
    factors.map_or(number, |factors| number * f32::from(factors[row]))
}

/// The scales of a matrix.
pub(super) enum AllScales {
    Blocks(Vec<OfBlock>),
    WithMinimum(Vec<OfBlockWithMinimum>),
    SuperBlocks(Vec<OfSuperBlock>),
    SixBits(Vec<OfSixBits>),
}

/// Implements the two conversion functions of [`Scales`] for a kind.
macro_rules! kind {
    ($kind:ident) => {
        fn all(scales: Vec<Self>) -> AllScales {
            AllScales::$kind(scales)
        }

        fn of(all: &AllScales) -> &[Self] {
            match all {
                AllScales::$kind(scales) => scales,
                _ => &[],
            }
        }
    };
}

/// One scale per block.
#[derive(Clone, Copy)]
pub(super) struct OfBlock(Halves);

/// One scale and one minimum per block.
#[derive(Clone, Copy)]
pub(super) struct OfBlockWithMinimum {
    scale: Halves,
    minimum: Halves,
}

/// Scales and minimums of the 8 blocks of a superblock.
#[derive(Clone, Copy)]
pub(super) struct OfSuperBlock {
    scale: Halves,
    minimum: Halves,
    factors: [Factors; 8],
    minimum_factors: [Factors; 8],
}

/// Scales of the 16 half-blocks of a superblock.
#[derive(Clone, Copy)]
pub(super) struct OfSixBits {
    scale: Halves,
    factors: [Factors; 16],
}

impl Scales for OfBlock {
    const ZERO: Self = Self([0; PANEL]);

    kind!(Blocks);

    fn set(&mut self, row: usize, span: &Span) {
        self.0[row] = span.scale.to_bits();
    }

    #[inline(always)]
    fn scale(&self) -> &Halves {
        &self.0
    }

    #[inline(always)]
    fn factor(&self, _block: usize, _part: usize) -> Option<&Factors> {
        None
    }

    #[inline(always)]
    fn minimum(&self, _block: usize) -> Option<(&Halves, Option<&Factors>)> {
        None
    }
}

impl Scales for OfBlockWithMinimum {
    const ZERO: Self = Self { scale: [0; PANEL], minimum: [0; PANEL] };

    kind!(WithMinimum);

    fn set(&mut self, row: usize, span: &Span) {
        (self.scale[row], self.minimum[row]) = (span.scale.to_bits(), span.minimum.to_bits());
    }

    #[inline(always)]
    fn scale(&self) -> &Halves {
        &self.scale
    }

    #[inline(always)]
    fn factor(&self, _block: usize, _part: usize) -> Option<&Factors> {
        None
    }

    #[inline(always)]
    fn minimum(&self, _block: usize) -> Option<(&Halves, Option<&Factors>)> {
        Some((&self.minimum, None))
    }
}

impl Scales for OfSuperBlock {
    const ZERO: Self =
        Self { scale: [0; PANEL], minimum: [0; PANEL], factors: [[0; PANEL]; 8], minimum_factors: [[0; PANEL]; 8] };

    kind!(SuperBlocks);

    fn set(&mut self, row: usize, span: &Span) {
        (self.scale[row], self.minimum[row]) = (span.scale.to_bits(), span.minimum.to_bits());
        for block in 0..8 {
            self.factors[block][row] = span.factors[block];
            self.minimum_factors[block][row] = span.minimum_factors[block];
        }
    }

    #[inline(always)]
    fn scale(&self) -> &Halves {
        &self.scale
    }

    #[inline(always)]
    fn factor(&self, block: usize, _part: usize) -> Option<&Factors> {
        Some(&self.factors[block])
    }

    #[inline(always)]
    fn minimum(&self, block: usize) -> Option<(&Halves, Option<&Factors>)> {
        Some((&self.minimum, Some(&self.minimum_factors[block])))
    }
}

impl Scales for OfSixBits {
    const ZERO: Self = Self { scale: [0; PANEL], factors: [[0; PANEL]; 16] };

    kind!(SixBits);

    fn set(&mut self, row: usize, span: &Span) {
        self.scale[row] = span.scale.to_bits();
        for (factors, factor) in self.factors.iter_mut().zip(span.factors) {
            factors[row] = factor;
        }
    }

    #[inline(always)]
    fn scale(&self) -> &Halves {
        &self.scale
    }

    #[inline(always)]
    fn factor(&self, block: usize, part: usize) -> Option<&Factors> {
        Some(&self.factors[2 * block + part])
    }

    #[inline(always)]
    fn minimum(&self, _block: usize) -> Option<(&Halves, Option<&Factors>)> {
        None
    }
}
