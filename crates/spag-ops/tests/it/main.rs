//! Ops: gradients compared with finite differences, attention with plain loops, and kernels with the CPU.

mod attention_bf16;
mod differences;
mod gradients;
mod kernels;
mod machine_code;
mod masked_attention;
mod norm_gradients;
mod tree_attention;
