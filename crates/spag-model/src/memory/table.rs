//! Tables of sizes.

use std::fmt;

use spag_io::format_gib;

/// Writes names and sizes in two columns, one row per line.
pub(super) fn write(f: &mut fmt::Formatter<'_>, rows: &[(&str, u64)]) -> fmt::Result {
    let name = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let number = rows.iter().map(|(_, bytes)| format_gib(*bytes).len()).max().unwrap_or(0);
    for (index, (text, bytes)) in rows.iter().enumerate() {
        let end = if index + 1 == rows.len() { "" } else { "\n" };
        write!(f, "  {text:<name$}  {:>number$}{end}", format_gib(*bytes))?;
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
