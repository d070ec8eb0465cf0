//! Sizes in GiB.

/// Bytes as GiB.
pub fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1u32 << 30)
}

/// Bytes as text in GiB with two decimals, `1.50 GiB`.
pub fn format_gib(bytes: u64) -> String {
    format!("{:.2} GiB", gib(bytes))
}
