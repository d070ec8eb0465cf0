//! Ops: gradients against finite differences, attention against plain loops, and kernels against the CPU.

mod attention_bf16;
mod differences;
mod gradients;
mod kernels;
mod masked_attention;
mod norm_gradients;
mod ptx;
mod tree_attention;
