//! Matrix products: the tiles of attention, and the products of linear layers.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bf16_gemm;
mod bf16_gemv;
mod blocks;
mod buffer;
#[cfg(target_arch = "x86_64")]
pub(crate) mod dot;
mod element;
mod format;
mod instructions;
#[cfg(target_arch = "x86_64")]
mod interleave;
pub(crate) mod large;
mod memory;
mod operands;
mod pack;
mod packing;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod panels;
mod path;
mod quantize_lhs;
#[cfg(target_arch = "x86_64")]
mod self_check;
mod source;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(target_arch = "x86_64")]
mod transpose_lhs;
mod widened;

#[cfg(target_arch = "x86_64")]
pub(crate) use amx::Tiles;
pub(crate) use bf16_gemv::Bf16Panels;
pub(crate) use buffer::{Buffer, LANES};
pub(crate) use element::Element;
pub(crate) use format::{Format, Order};
pub(crate) use instructions::transpose;
#[cfg(target_arch = "x86_64")]
pub(crate) use interleave::interleave;
pub(crate) use memory::{SharedMemory, fit_in_place};
use operands::PARTS;
pub(crate) use operands::{
    CHAIN_STEPS, COLUMNS, DEPTH, Left, Next, Output, ROWS, Right, RightOperand, Rows, Side, Start, Target, Values,
    chain_len,
};
pub(crate) use packing::{Packable, Packs};
pub(crate) use panels::Panels;
pub use path::CpuPath;
pub(crate) use quantize_lhs::round;
pub(crate) use source::{Exact, ToBf16};
pub(crate) use tile::tile;
pub(crate) use widened::Widened;
