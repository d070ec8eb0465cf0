//! Ops: gradients against finite differences, and attention against plain loops.

mod attention_bf16;
mod differences;
mod gradients;
mod masked_attention;
mod norm_gradients;
