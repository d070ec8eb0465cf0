//! `--kebab-case` flags are read as `--snake_case`.

use std::ffi::OsString;

/// Rewrites the names of long flags in snake_case. Leaves values, the first argument (the program's name) and all
/// arguments after a bare `--` unchanged.
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
                Some(text) if !skip && text.starts_with("--") => snake_case_flag(text).into(),
                _ => arg,
            }
        })
        .collect()
}

fn snake_case_flag(flag: &str) -> String {
    let (name, value) = flag.split_at(flag.find('=').unwrap_or(flag.len()));
    format!("--{}{value}", name[2..].replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(args: &[&str]) -> Vec<String> {
        let args = args.iter().map(OsString::from);
        snake_case_flags(args).into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn only_names_of_flags_are_rewritten() {
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
    fn both_spellings_are_equal() {
        assert_eq!(
            rewritten(&["p", "--bf16", "--max-new_tokens=3"]),
            rewritten(&["p", "--bf16", "--max_new_tokens=3"])
        );
    }
}
