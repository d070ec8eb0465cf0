//! Lists of CPUs as Linux writes them, such as `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Numbers of CPUs, of which Linux can bind a process to those below 1024.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::launch) struct CpuList(pub(super) BTreeSet<usize>);

/// A larger number is treated as a mistake.
const MAX_CPU: usize = 65_535;

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first), Ok(last)) if first <= last && last <= MAX_CPU => all.extend(first..=last),
                _ => return Err(format!("{part:?} is no range of CPUs such as 0-3")),
            }
        }
        Ok(Self(all))
    }
}

/// The shortest list of ranges.
impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
                _ => ranges.push((*cpu, *cpu)),
            }
        }
        let text = |(first, last): &(usize, usize)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        f.write_str(&ranges.iter().map(text).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_linux_writes_them() {
        for (text, shown, count) in [("0-3,8\n", "0-3,8", 5), ("0,1,2,4-4", "0-2,4", 4), ("", "", 0), ("7", "7", 1)] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!((list.to_string().as_str(), list.0.len()), (shown, count));
        }
        for text in ["3-1", "a", "1-", "-1", "0-99999999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }
}
