//! Bytes for people.

use std::fmt;

/// Bytes in GiB, to two digits after the point.
pub fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// Writes names and bytes in two columns, a line each.
pub(super) fn write(f: &mut fmt::Formatter<'_>, rows: &[(&str, u64)]) -> fmt::Result {
    let name = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let number = rows.iter().map(|(_, bytes)| gib(*bytes).len()).max().unwrap_or(0);
    for (index, (text, bytes)) in rows.iter().enumerate() {
        let end = if index + 1 == rows.len() { "" } else { "\n" };
        write!(f, "  {text:<name$}  {:>number$}{end}", gib(*bytes))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;
    impl fmt::Display for Two {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write(f, &[("weights", 13_476_831_232), ("pages", 512 << 20)])
        }
    }

    #[test]
    fn columns_line_up() {
        assert_eq!(Two.to_string(), "  weights  12.55 GiB\n  pages     0.50 GiB");
    }
}
