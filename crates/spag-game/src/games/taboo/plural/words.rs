//! Words with a listed plural: pronouns, words without a plural, and loan words that keep their language's plural.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Words whose plural replaces `ending` by `becomes`.
struct Group {
    ending: &'static str,
    becomes: &'static str,
    words: &'static [&'static str],
}

/// Articles, demonstratives and pronouns, each with its plural. "her" counts as a possessive.
#[rustfmt::skip]
const PRONOUNS: &[(&str, &str)] = &[
    ("a", "some"), ("an", "some"), ("this", "these"), ("that", "those"), ("any", "all"), ("my", "our"),
    ("your", "your"), ("thy", "your"), ("her", "their"), ("his", "their"), ("its", "their"), ("their", "their"),
    ("mine", "ours"), ("yours", "yours"), ("thine", "yours"), ("hers", "theirs"), ("theirs", "theirs"),
    ("I", "we"), ("me", "us"), ("myself", "ourselves"), ("you", "you"), ("thou", "ye"), ("thee", "ye"),
    ("yourself", "yourself"), ("thyself", "yourself"), ("she", "they"), ("he", "they"), ("it", "they"),
    ("they", "they"), ("him", "them"), ("them", "them"), ("herself", "themselves"), ("himself", "themselves"),
    ("itself", "themselves"), ("themself", "themselves"), ("oneself", "oneselves"),
];

/// Words with irregular plurals that are regular as endings ("fox", "scow").
const WHOLE: &[(&str, &str)] = &[("cow", "kine"), ("ox", "oxen")];

/// "enconium" and "millenium" are misspelled in TextBlob too; the correct spellings take -s.
#[rustfmt::skip]
const GROUPS: &[Group] = &[
    // Words that do not inflect.
    Group { ending: "", becomes: "", words: &[
        "aircraft", "antelope", "bison", "bream", "breeches", "britches", "carp", "cattle", "chassis", "clippers",
        "cod", "contretemps", "corps", "debris", "diabetes", "djinn", "eland", "elk", "flounder", "gallows",
        "graffiti", "headquarters", "herpes", "homework", "innings", "jackanapes", "jeans", "mackerel", "measles",
        "mews", "moose", "mumps", "news", "offspring", "pincers", "pliers", "proceedings", "rabies", "salmon",
        "scissors", "series", "shears", "species", "swine", "trout", "tuna", "whiting", "wildebeest",
    ] },
    // Uncountable nouns.
    Group { ending: "", becomes: "", words: &[
        "advice", "bread", "butter", "cannabis", "cheese", "electricity", "equipment", "fruit", "furniture",
        "garbage", "gravel", "happiness", "information", "ketchup", "knowledge", "love", "luggage", "mathematics",
        "mayonnaise", "meat", "mustard", "progress", "research", "rice", "sand", "software", "understanding", "water",
    ] },
    // The Latin fourth declension and similar words.
    Group { ending: "", becomes: "", words: &[
        "apparatus", "cantus", "coitus", "hiatus", "impetus", "nexus", "plexus", "prospectus", "sinus", "status",
    ] },
    Group { ending: "ex", becomes: "ices", words: &[
        "apex", "codex", "cortex", "index", "latex", "murex", "pontifex", "silex", "simplex", "vertex", "vortex",
    ] },
    Group { ending: "um", becomes: "a", words: &[
        "agendum", "aquarium", "bacterium", "candelabrum", "compendium", "consortium", "cranium", "curriculum",
        "datum", "desideratum", "dictum", "emporium", "enconium", "erratum", "extremum", "gymnasium", "honorarium",
        "interregnum", "lustrum", "maximum", "medium", "memorandum", "millenium", "minimum", "momentum", "optimum",
        "ovum", "phylum", "quantum", "rostrum", "spectrum", "speculum", "stadium", "stratum", "trapezium",
        "ultimatum", "vacuum", "velum",
    ] },
    Group { ending: "on", becomes: "a", words: &[
        "aphelion", "asyndeton", "criterion", "hyperbaton", "noumenon", "organon", "perihelion", "phenomenon",
        "prolegomenon",
    ] },
    Group { ending: "a", becomes: "ae", words: &[
        "abscissa", "alga", "alumna", "amoeba", "antenna", "aurora", "formula", "hydra", "hyperbola", "lacuna",
        "medusa", "nebula", "nova", "parabola", "vertebra",
    ] },
    Group { ending: "a", becomes: "ata", words: &[
        "anathema", "bema", "carcinoma", "charisma", "diploma", "dogma", "drama", "edema", "enema", "enigma",
        "gumma", "lemma", "lymphoma", "magma", "melisma", "miasma", "oedema", "sarcoma", "schema", "soma", "stigma",
        "stoma", "trauma",
    ] },
    Group { ending: "en", becomes: "ina", words: &["foramen", "lumen", "stamen"] },
    Group { ending: "is", becomes: "ides", words: &["clitoris", "iris"] },
    Group { ending: "us", becomes: "i", words: &[
        "focus", "fungus", "genius", "incubus", "nimbus", "nucleolus", "radius", "stylus", "succubus", "torus",
        "umbilicus", "uterus",
    ] },
    // Italian.
    Group { ending: "o", becomes: "i", words: &[
        "alto", "basso", "canto", "contralto", "crescendo", "solo", "soprano", "tempo",
    ] },
    // Arabic and Hebrew.
    Group { ending: "", becomes: "i", words: &["afreet", "afrit", "efreet"] },
    Group { ending: "", becomes: "im", words: &["cherub", "goy", "seraph"] },
    // Singulars in -s.
    Group { ending: "", becomes: "es", words: &[
        "acropolis", "aegis", "alias", "asbestos", "bathos", "bias", "bus", "caddis", "canvas", "chaos", "christmas",
        "cosmos", "dais", "digitalis", "epidermis", "ethos", "gas", "glottis", "ibis", "lens", "mantis", "marquis",
        "metropolis", "pathos", "pelvis", "polis", "rhinoceros", "sassafras", "trellis",
    ] },
    // Words in -o that take -s; the others take -es.
    Group { ending: "", becomes: "s", words: &[
        "albino", "archipelago", "armadillo", "commando", "ditto", "dynamo", "embryo", "fiasco", "generalissimo",
        "ghetto", "guano", "inferno", "jumbo", "lingo", "lumbago", "magneto", "manifesto", "medico", "octavo",
        "photo", "pro", "quarto", "rhino", "stylo",
    ] },
];

/// The ending of each listed word and what it becomes.
static KNOWN: LazyLock<HashMap<&str, (&str, &str)>> = LazyLock::new(|| {
    let whole = [PRONOUNS, WHOLE].into_iter().flatten();
    let whole = whole.map(|&(word, becomes)| (word, (word, becomes)));
    let grouped = GROUPS.iter().flat_map(|group| group.words.iter().map(|&word| (word, (group.ending, group.becomes))));
    whole.chain(grouped).collect()
});

/// The plural of a listed word.
pub(super) fn plural(word: &str) -> Option<String> {
    let (ending, becomes) = KNOWN.get(word)?;
    word.strip_suffix(ending).map(|stem| format!("{stem}{becomes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed_once_and_have_their_groups_ending() {
        let listed = PRONOUNS.len() + WHOLE.len() + GROUPS.iter().map(|g| g.words.len()).sum::<usize>();
        assert_eq!(KNOWN.len(), listed);
        for word in KNOWN.keys() {
            assert!(plural(word).is_some(), "{word}");
        }
    }
}
