//! Suggestions for misspelled names.

/// Jaro-Winkler similarity above which a name counts as a misspelling of another.
const SIMILAR: f64 = 0.8;

/// Longer names are not compared: the cost grows with the product of the lengths, and no misspelled name is that
/// long.
const LONGEST: usize = 256;

/// The known name most similar to `name`, if any is similar.
pub fn nearest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    // `lr` is a common abbreviation of `learning_rate`. One letter would match too much.
    let is_short_for = |known: &str| {
        let words = || known.split('_');
        words().all(|word| word.len() > 1) && words().filter_map(|word| word.chars().next()).eq(name.chars())
    };
    let similarity = |known: &&str| if is_short_for(known) { 1.0 } else { strsim::jaro_winkler(name, known) };
    let similar = known.into_iter().filter(|known| known.len() <= LONGEST && similarity(known) > SIMILAR);
    similar.max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
}

#[cfg(test)]
mod tests {
    use super::nearest_name;

    #[test]
    fn misspelled_names_are_found_and_others_are_not() {
        let known = ["lm_kl_coeff", "lm_sft_coeff", "learning_rate", "bf16"];
        assert_eq!(nearest_name("lm_kl_coef", known), Some("lm_kl_coeff"));
        assert_eq!(nearest_name("learnin_rate", known), Some("learning_rate"));
        assert_eq!(nearest_name("zzz", known), None);
        assert_eq!(nearest_name("lr", ["lora_r", "clip_range", "learning_rate"]), Some("learning_rate"));
        assert_eq!(nearest_name("é", ["élan_vital", "e"]), None);
    }

    #[test]
    fn long_names_have_no_nearest_name_and_take_no_time() {
        let long = "learning_rate".repeat(2_000_000);
        assert_eq!(nearest_name(&long, ["learning_rate", &long]), None);
        assert_eq!(nearest_name("learning_rat", ["learning_rate", &long]), Some("learning_rate"));
    }
}
