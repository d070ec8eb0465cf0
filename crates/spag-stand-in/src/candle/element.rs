//! Numbers in device memory.

use half::bf16;

use crate::memory::Region;

/// A number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F64,
    Bf16,
    U8,
    U32,
    I64,
}

/// Splits a kernel's name into its prefix and types: `cast_f32_bf16` is `cast`, f32 and bf16.
pub(super) fn split(name: &str) -> Option<(&str, Vec<Element>)> {
    let (mut base, mut elements) = (name, Vec::new());
    while let Some((rest, last)) = base.rsplit_once('_')
        && let Some(element) = Element::find(last)
    {
        elements.insert(0, element);
        base = rest;
    }
    (!elements.is_empty()).then_some((base, elements))
}

impl Element {
    fn find(name: &str) -> Option<Self> {
        Some(match name {
            "f32" => Self::F32,
            "f64" => Self::F64,
            "bf16" => Self::Bf16,
            "u8" => Self::U8,
            "u32" => Self::U32,
            "i64" => Self::I64,
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::Bf16 => 2,
            Self::F32 | Self::U32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Decodes the number in the first bytes.
    pub(super) fn number_in(self, b: &[u8; 8]) -> f64 {
        let [b0, b1, b2, b3, ..] = *b;
        match self {
            Self::U8 => f64::from(b0),
            Self::Bf16 => bf16::from_le_bytes([b0, b1]).to_f64(),
            Self::F32 => f64::from(f32::from_le_bytes([b0, b1, b2, b3])),
            Self::U32 => f64::from(u32::from_le_bytes([b0, b1, b2, b3])),
            Self::F64 => f64::from_le_bytes(*b),
            Self::I64 => i64::from_le_bytes(*b) as f64,
        }
    }

    /// Encodes the number in its type, in the first bytes.
    fn to_bytes(self, x: f64) -> [u8; 8] {
        let mut bytes = [0; 8];
        match self {
            Self::U8 => bytes[0] = x as u8,
            Self::Bf16 => bytes[..2].copy_from_slice(&bf16::from_f64(x).to_le_bytes()),
            Self::F32 => bytes[..4].copy_from_slice(&(x as f32).to_le_bytes()),
            Self::U32 => bytes[..4].copy_from_slice(&(x as u32).to_le_bytes()),
            Self::F64 => bytes = x.to_le_bytes(),
            Self::I64 => bytes = (x as i64).to_le_bytes(),
        }
        bytes
    }
}

/// The numbers of a region, which is kept by the accesses of the work.
pub(super) struct View {
    at: usize,
    length: usize,
    element: Element,
}

impl View {
    pub(super) fn new(region: &Region, element: Element) -> Self {
        Self { at: region.at() as usize, length: region.len() / element.size(), element }
    }

    fn place(&self, i: usize) -> Result<*mut u8, String> {
        if i < self.length {
            Ok((self.at + i * self.element.size()) as *mut u8)
        } else {
            Err(format!("element {i} is outside its memory of {}", self.length))
        }
    }

    pub(super) fn get(&self, i: usize) -> Result<f64, String> {
        let mut bytes = [0; 8];
        let from = self.place(i)?;
        // SAFETY: the element lies inside the region, which is mapped while the work runs.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from, self.element.size()) };
        Ok(self.element.number_in(&bytes))
    }

    pub(super) fn set(&self, i: usize, x: f64) -> Result<(), String> {
        let bytes = self.element.to_bytes(x);
        // SAFETY: as above; work on memory in concurrent use is refused when submitted.
        unsafe { self.place(i)?.copy_from_nonoverlapping(bytes.as_ptr(), self.element.size()) };
        Ok(())
    }
}
