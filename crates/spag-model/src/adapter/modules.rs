//! Which modules of a model PEFT means by a name or a pattern.

/// The modules that have an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Targets {
    /// `all-linear`: all linear layers of the blocks.
    AllLinear,
    /// Modules with one of these names, or whose names end with a dot and one of them.
    Named(Vec<String>),
}

impl Targets {
    /// Whether a module has an adapter.
    pub(super) fn include(&self, module: &str) -> bool {
        match self {
            Self::AllLinear => true,
            Self::Named(names) => names.iter().any(|name| ends_with(module, name)),
        }
    }
}

/// Whether a module has this name, or its name ends with a dot and this one.
pub(super) fn ends_with(module: &str, name: &str) -> bool {
    module.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// A key of `rank_pattern` or `alpha_pattern`: the end of a module's name, or all of it after `^`. PEFT takes regular expressions; a
/// dot that stands for any character is the only one of these that is understood here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    name: String,
    is_whole: bool,
}

impl Pattern {
    /// # Errors
    /// A regular expression that is not a name.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_whole = text.starts_with('^');
        let name = text.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".");
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(
                "the pattern \"{text}\" is a regular expression; write names of modules, one key each"
            ));
        }
        Ok(Self { name, is_whole })
    }

    /// Whether the pattern means a module.
    pub(super) fn matches(&self, module: &str) -> bool {
        if self.is_whole { module == self.name } else { ends_with(module, &self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_whole_parts_at_the_end() {
        let module = "model.layers.1.self_attn.q_proj";
        for (name, expected) in [
            ("q_proj", true),
            ("_proj", false),
            ("self_attn.q_proj", true),
            ("1.self_attn.q_proj", true),
            (module, true),
        ] {
            assert_eq!(ends_with(module, name), expected, "{name}");
            assert_eq!(Pattern::parse(name).unwrap().matches(module), expected, "{name}");
        }
        assert!(Pattern::parse("^model\\.layers\\.1\\.self_attn\\.q_proj$").unwrap().matches(module));
        assert!(!Pattern::parse("^q_proj").unwrap().matches(module));
        assert!(Pattern::parse("layers.[01].self_attn").unwrap_err().contains("layers.[01].self_attn"));
        assert!(Targets::AllLinear.include(module));
        assert!(!Targets::Named(vec!["k_proj".into(), "proj".into()]).include(module));
    }
}
