//! The header that a rank sends to the next rank before a collective's data.

use bytemuck::{Pod, Zeroable};
use candle_core::DType;

use crate::Collective;
use crate::hosts::Scope;

/// Bytes of an encoded header.
pub(crate) const HEADER_LEN: usize = 32;

/// Identifies a collective. The headers of all ranks must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Header {
    /// Number of collectives that the group started before.
    pub(crate) sequence: u64,
    length: u64,
    root: u32,
    kind: u8,
    format: u8,
    scope: u8,
    unused: [u8; 9],
}

/// [`Collective::name`].
const KINDS: [&str; 5] = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"];
const FORMATS: [DType; 9] =
    [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64, DType::BF16, DType::F16, DType::F32, DType::F64];

impl Header {
    /// `None` for unsupported number formats.
    pub(crate) fn new(sequence: u64, scope: Scope, collective: &Collective) -> Option<Self> {
        let kind = KINDS.iter().position(|kind| *kind == collective.name())? as u8;
        let root = if let Collective::Broadcast(_, root) = collective { *root as u32 } else { 0 };
        let (format, length) =
            collective.buffer().map_or((DType::U8, 0), |buffer| (buffer.dtype(), buffer.elem_count() as u64));
        let format = FORMATS.iter().position(|known| *known == format)? as u8;
        Some(Self { sequence, length, root, kind, format, scope: scope as u8, unused: [0; 9] })
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        bytemuck::cast(self)
    }

    pub(crate) fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Self {
        bytemuck::cast(*bytes)
    }
}

impl std::fmt::Display for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(kind) = KINDS.get(usize::from(self.kind)) else { return f.write_str("something unknown") };
        f.write_str(kind)?;
        if *kind != "barrier" {
            let format = FORMATS.get(usize::from(self.format)).map_or("unknown", |format| format.as_str());
            write!(f, " of {} {format}", self.length)?;
        }
        if *kind == "broadcast" {
            write!(f, " from rank {}", self.root)?;
        }
        match self.scope {
            scope if scope == Scope::WithinHost as u8 => f.write_str(" within the host"),
            scope if scope == Scope::BetweenHosts as u8 => f.write_str(" between hosts"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::*;

    #[test]
    fn header_round_trips_and_names_the_collective() {
        let buffer = Tensor::zeros(6, DType::BF16, &Device::Cpu).unwrap();
        for (scope, collective, text) in [
            (Scope::World, Collective::AllReduce(buffer.clone()), "all_reduce of 6 bf16"),
            (Scope::BetweenHosts, Collective::AllReduce(buffer.clone()), "all_reduce of 6 bf16 between hosts"),
            (Scope::World, Collective::Broadcast(buffer, 3), "broadcast of 6 bf16 from rank 3"),
            (Scope::WithinHost, Collective::Barrier, "barrier within the host"),
        ] {
            let header = Header::new(7, scope, &collective).unwrap();
            assert_eq!(Header::from_bytes(&header.to_bytes()), header);
            assert_eq!(header.to_string(), text);
            assert!(text.starts_with(collective.name()));
        }
        let unknown = Header::from_bytes(&[0xff; HEADER_LEN]);
        assert_eq!(unknown.to_string(), "something unknown");
    }
}
