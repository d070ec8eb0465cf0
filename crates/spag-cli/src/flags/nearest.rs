//! The known name that a mistyped one most likely meant.

/// Below this Jaro-Winkler similarity two names are more likely different than mistyped.
const ALIKE: f64 = 0.8;

/// The most similar of `known`, if any is similar at all.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_typos_and_nothing_else() {
        let known = ["lm_kl_coeff", "lm_sft_coeff", "learning_rate", "bf16"];
        assert_eq!(nearest("lm_kl_coef", known.into_iter()), Some("lm_kl_coeff"));
        assert_eq!(nearest("learnin_rate", known.into_iter()), Some("learning_rate"));
        assert_eq!(nearest("zzz", known.into_iter()), None);
    }
}
