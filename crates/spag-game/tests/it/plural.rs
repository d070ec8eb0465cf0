//! The pluraliser against TextBlob, on a fixture of 2,361 words and on others.

use spag_game::{pluralize, word_forms};
use spag_tests::fixture;

#[test]
fn plurals_of_the_fixture_equal_textblobs() {
    let text = std::fs::read_to_string(fixture("plurals.tsv")).unwrap();
    let mut rows = 0;
    for line in text.lines() {
        let (word, plural) = line.split_once('\t').unwrap();
        assert_eq!(word_forms(word)[3], plural, "{word}");
        rows += 1;
    }
    assert_eq!(rows, 2361);
}

/// Words of each kind with the plurals of TextBlob 0.20.1.
#[test]
fn plurals_of_other_words_equal_textblobs() {
    for (words, plurals) in [
        // Regular endings.
        (
            "wish lash glass suffix storey donkey ferry soliloquy",
            "wishes lashes glasses suffixes storeys donkeys ferries soliloquies",
        ),
        // -f and -fe.
        (
            "calf elf golf oaf sheaf scarf dwarf housewife penknife giraffe",
            "calves elves golves oafs sheaves scarves dwarves housewives penknives giraffes",
        ),
        // -o.
        (
            "torpedo veto cameo kangaroo photo rhino embryo piano",
            "torpedoes vetoes cameos kangaroos photos rhinos embryos pianoes",
        ),
        // Loan words.
        (
            "alumna antenna stigma schema ovum stratum curriculum noumenon",
            "alumnae antennae stigmata schemata ova strata curricula noumena",
        ),
        (
            "vertex murex nimbus uterus status apparatus iris stamen",
            "vertices murices nimbi uteri status apparatus irides stamina",
        ),
        (
            "aviatrix tableau adieu sphinx phalanx larynx soprano seraph",
            "aviatrices tableaux adieu sphinges phalanges larynges soprani seraphim",
        ),
        (
            "crisis thesis praxis glottis metropolis rhinoceros",
            "crises theses praxes glottises metropolises rhinoceroses",
        ),
        // Irregular.
        (
            "grandchild snowman woman dormouse eyetooth mongoose forefoot salesperson",
            "grandchildren snowmen women dormice eyeteeth mongooses forefeet salespeople",
        ),
        (
            "cow scow ox fox platypus octopus opus corpus brother money",
            "kine scows oxen foxes platypuss octopodes opera corpora brethren monies",
        ),
        // Without a plural.
        (
            "goldfish reindeer smallpox hepatitis patois glucose wildebeest luggage",
            "goldfish reindeer smallpox hepatitis patois glucose wildebeest luggage",
        ),
        // Pronouns and the like.
        (
            "an this any thy her hers I me himself oneself",
            "some these all your their theirs we us themselves oneselves",
        ),
        // Capitals: names in -y take -s, peoples in -ese have no plural, irregular nouns are lower-case only.
        ("Kennedy Portuguese Child Cow Box", "Kennedys Portuguese Childs Cows Boxes"),
    ] {
        for (word, plural) in words.split(' ').zip(plurals.split(' ')) {
            assert_eq!(pluralize(word), plural, "{word}");
        }
    }
}

#[test]
fn plurals_of_compounds_and_possessives() {
    for (word, plural) in [
        ("man-at-arms", "men-at-arms"),
        ("editor in chief", "editors in chief"),
        ("son-in-law", "sons-in-law"),
        ("passer-by", "passers-by"),
        ("postmaster general", "postmasters general"),
        ("Attorney General", "Attorneys General"),
        ("Major General", "Major Generals"),
        ("sea wolf", "sea wolves"),
        ("will-o'-the-wisp", "will-o'-the-wisps"),
        ("bye-bye", "byes-byes"),
        ("dog's", "dogs'"),
        ("child's", "children's"),
        ("dogs'", "dogs'"),
        ("Mary's", "Marys'"),
    ] {
        assert_eq!(pluralize(word), plural, "{word}");
    }
}

#[test]
fn forms_include_the_plural_of_the_first_word() {
    assert_eq!(word_forms("Ice Cream")[..4], ["ice cream", "ice creaming", "ice creamed", "ices"]);
    assert_eq!(word_forms("can't")[3], "cas");
    assert_eq!(word_forms("ÉTUDE")[3], "études");
    assert_eq!(word_forms("cat").len(), 16);
    assert!(word_forms("cat").contains(&"'cated'".to_owned()));
    // A target without letters has no plural.
    assert_eq!(word_forms("!?").len(), 12);
}
