//! Ops: gradients against finite differences, attention against plain loops, and kernels against the CPU.

mod attention_bf16;
mod differences;
mod gradients;
mod kernels;
mod machine_code;
mod masked_attention;
mod norm_gradients;
mod tree_attention;
