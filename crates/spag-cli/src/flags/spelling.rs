//! `--kebab-case` and `--snake_case` are the same flag.

use std::ffi::OsString;

/// Rewrites the name of every long flag in snake_case, up to its `=`; leaves values, and all that follows a bare `--`, alone.
///
/// The first argument is the program's name and stays as it is.
pub(crate) fn snake_case_flags(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut only_values = false;
    let mut first = true;
    args.into_iter()
        .map(|arg| {
            let skip = std::mem::take(&mut first) || only_values;
            match arg.to_str() {
                Some("--") => {
                    only_values = true;
                    arg
                }
                Some(text) if !skip && text.starts_with("--") => OsString::from(snake_case_flag(text)),
                _ => arg,
            }
        })
        .collect()
}

fn snake_case_flag(flag: &str) -> String {
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (flag, None),
    };
    let name = name.strip_prefix("--").unwrap_or(name).replace('-', "_");
    match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(args: &[&str]) -> Vec<String> {
        let args = args.iter().map(OsString::from);
        snake_case_flags(args).into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn only_names_of_flags_change() {
        assert_eq!(
            rewritten(&[
                "--a-program",
                "--lm-kl-coeff",
                "a-b",
                "--out-dir=x-y=z-",
                "-s-x",
                "--set",
                "k-1=v-1",
                "--",
                "--a-b"
            ]),
            ["--a-program", "--lm_kl_coeff", "a-b", "--out_dir=x-y=z-", "-s-x", "--set", "k-1=v-1", "--", "--a-b"],
        );
    }

    #[test]
    fn either_spelling_gives_the_same() {
        assert_eq!(
            rewritten(&["p", "--bf16", "--max-new_tokens=3"]),
            rewritten(&["p", "--bf16", "--max_new_tokens=3"])
        );
    }
}
