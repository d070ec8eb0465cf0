//! Templates compared with transformers, and hostile templates.

mod expressions;
mod hostile;

/// Counts the bytes that templates hold.
#[global_allocator]
static HELD: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);
