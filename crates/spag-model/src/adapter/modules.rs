//! Matches module names like PEFT: by name or regular expression.

use fancy_regex::{Regex, RegexBuilder};
use serde_json::Value;
use spag_io::quote;

/// The name for all linear layers of the blocks.
pub(super) const ALL_LINEAR: &str = "all-linear";
/// Maximum steps of a regular expression match. Module names are short, so ordinary expressions need few.
const MAX_STEPS: usize = 100_000;
/// Maximum bytes of a compiled expression.
const MAX_COMPILED: usize = 1 << 20;

/// The modules targeted by an adapter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Targets {
    /// `all-linear`: all linear layers of the blocks.
    AllLinear,
    /// Modules with one of these names, or whose names end with a dot and one of them.
    Named(Vec<String>),
    /// Modules whose whole names match.
    Matching(Pattern),
}

impl Targets {
    /// The value as written to `adapter_config.json`.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::AllLinear => ALL_LINEAR.into(),
            Self::Named(names) => names.as_slice().into(),
            Self::Matching(pattern) => pattern.text().into(),
        }
    }

    /// Whether a module has an adapter.
    ///
    /// # Errors
    /// As [`Pattern::matches`].
    pub(super) fn include(&self, module: &str) -> Result<bool, String> {
        match self {
            Self::AllLinear => Ok(true),
            Self::Named(names) => Ok(names.iter().any(|name| ends_with(module, name))),
            Self::Matching(pattern) => pattern.matches(module),
        }
    }
}

/// Whether a module's name is `name`, or ends with a dot and `name`.
pub(super) fn ends_with(module: &str, name: &str) -> bool {
    module.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// A regular expression for module names, in Python's syntax.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }
}

impl Pattern {
    /// `target_modules`, which matches whole names: Python's `re.fullmatch`.
    ///
    /// # Errors
    /// An invalid expression, or syntax that only Python supports.
    pub(super) fn of_names(text: &str) -> Result<Self, String> {
        Self::parse(text, format!(r"\A(?:{text})\z"))
    }

    /// A key of `rank_pattern` or `alpha_pattern`, which matches whole names or suffixes after a dot:
    /// `re.match(rf"(.*\.)?({key})$", name)`.
    ///
    /// # Errors
    /// As [`Pattern::of_names`].
    pub(super) fn of_ends(text: &str) -> Result<Self, String> {
        Self::parse(text, format!(r"\A(?:.*\.)?(?:{text})\z"))
    }

    fn parse(text: &str, anchored: String) -> Result<Self, String> {
        let built = |source: &str| {
            RegexBuilder::new(source).backtrack_limit(MAX_STEPS).delegate_size_limit(MAX_COMPILED).build()
        };
        // Compiled alone first, so that its parentheses cannot close a surrounding group.
        let regex = built(text).and_then(|_| built(&anchored)).map_err(|error| {
            format!("the regular expression \"{}\" cannot be read: {}", quote(text), quote(&error.to_string()))
        })?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// The expression as written in `adapter_config.json`.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches a module.
    ///
    /// # Errors
    /// The match takes too many steps.
    pub(super) fn matches(&self, module: &str) -> Result<bool, String> {
        self.regex.is_match(module).map_err(|error| {
            let (text, error) = (quote(&self.text), quote(&error.to_string()));
            format!("the regular expression \"{text}\" cannot be compared with \"{module}\": {error}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "model.layers.1.self_attn.q_proj";

    #[test]
    fn names_match_whole_parts_at_the_end() {
        for (name, expected) in [
            ("q_proj", true),
            ("_proj", false),
            ("self_attn.q_proj", true),
            ("1.self_attn.q_proj", true),
            (MODULE, true),
        ] {
            assert_eq!(ends_with(MODULE, name), expected, "{name}");
            assert_eq!(Pattern::of_ends(name).unwrap().matches(MODULE), Ok(expected), "{name}");
        }
        assert_eq!(Targets::AllLinear.include(MODULE), Ok(true));
        assert_eq!(Targets::Named(vec!["k_proj".into(), "proj".into()]).include(MODULE), Ok(false));
    }

    /// The expected values come from Python's `re` with PEFT's expressions.
    #[test]
    fn expressions_match_as_in_python() {
        for (text, whole, end) in [
            (r"^model\.layers\.1\.self_attn\.q_proj$", true, true),
            ("^q_proj", false, false),
            (r".*\.[qv]_proj", true, true),
            ("[qv]_proj", false, true),
            ("q_proj|v_proj", false, true),
            (r"model\.layers\.1\..*|v_proj", true, true),
            (r".*layers\.(0|[2-9])\..*", false, false),
            (r".*(?<!k)_proj", true, true),
            (r"(?!.*layers\.1\.).*q_proj", false, true),
            (r"model.layers.\d+.self_attn.(?P<name>q|v)_proj", true, true),
            ("layers.[01].self_attn", false, false),
        ] {
            assert_eq!(Pattern::of_names(text).unwrap().matches(MODULE), Ok(whole), "{text}");
            assert_eq!(Pattern::of_ends(text).unwrap().matches(MODULE), Ok(end), "{text}");
        }
        for text in ["q_proj)|(", "[", "*"] {
            assert!(Pattern::of_names(text).unwrap_err().contains(&format!("\"{text}\"")), "{text}");
        }
        let slow = Pattern::of_names(r"(?:(?=(\w|\.)+)(?:\w|\.)+)+\1x").unwrap();
        assert!(slow.matches(&MODULE.repeat(4)).is_err());
    }
}
