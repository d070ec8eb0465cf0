//! SLURM's compact host lists, as far as the first host.

/// The first host of a list such as `gpu[03-05,9],login1`, or `None` when the list is empty or its brackets do not close.
///
/// Only the first number range is opened: the first host is where rank 0 runs, and nothing else is asked of the list.
/// Several bracket groups in one name (`rack[1-2]node[1-4]`) are opened alike.
pub(crate) fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    loop {
        let Some(at) = rest.find(['[', ',']) else {
            host.push_str(rest);
            break;
        };
        let (name, tail) = rest.split_at(at);
        host.push_str(name);
        if tail.starts_with(',') {
            break;
        }
        let (ranges, after) = tail.strip_prefix('[')?.split_once(']')?;
        host.push_str(ranges.split(['-', ',']).next()?);
        rest = after;
    }
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::first_host;

    #[test]
    fn opens_the_first_range_only() {
        for (list, first) in [
            ("login1", "login1"),
            ("gpu[03-05,9],login1", "gpu03"),
            ("gpu[7]", "gpu7"),
            ("a,b,c", "a"),
            ("rack[1-2]node[4-8]", "rack1node4"),
            ("n[1-2].local,m", "n1.local"),
        ] {
            assert_eq!(first_host(list).as_deref(), Some(first), "{list}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_list() {
        for list in ["", "  ", "gpu[1-3", ",a"] {
            assert_eq!(first_host(list), None, "{list:?}");
        }
    }
}
