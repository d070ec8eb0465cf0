//! Lexicons from files in WordNet's format: which words are chosen, their clues, and damaged files.

use std::fs;
use std::path::Path;

use spag_game::word_forms;
use spag_world::{Error, Lexicon, LexiconReport, WordChoice, WordNet, write_lexicon};
use tempfile::TempDir;

use crate::files::{ANIMAL, ARTIFACT, BODY, FOOD, NAME, PLANT, Row, damage, noun, write};

/// Nouns, some of which become target words.
fn rows() -> Vec<Row> {
    vec![
        noun(3, "being", 9, "that which lives"),
        noun(ANIMAL, "swimmer", 0, "any beast that swims").to("@", "being"),
        noun(ANIMAL, "otter", 7, "a brown river swimmer (of cold lands) with webbed feet; \"the otter dives\"")
            .also("river dog")
            .to("@", "swimmer")
            .to("%p", "tail")
            .to("%p", "ear")
            .to("#p", "holt")
            .to("~", "sea otter")
            .to("~", "giant otter")
            .to("~", "clawless swimmer"),
        noun(ANIMAL, "sea otter", 0, "an otter of the sea").to("@", "otter"),
        noun(ANIMAL, "giant otter", 0, "an otter of the south").to("@", "otter"),
        noun(ANIMAL, "clawless swimmer", 0, "a beast without claws").to("@", "otter"),
        noun(ANIMAL, "newt", 5, "small swimmer of ponds").also("eft").to("@", "swimmer").to("%p", "tail"),
        noun(BODY, "tail", 3, "the hind end of a beast").to("@", "being"),
        noun(BODY, "ear", 3, "the organ that hears").to("@", "being"),
        noun(ARTIFACT, "holt", 0, "a burrow of a swimmer"),
        noun(ARTIFACT, "vessel", 2, "a craft for the sea").also("ship"),
        noun(ARTIFACT, "vessel", 2, "a tube in a beast"),
        noun(PLANT, "reed", 2, "a tall grass of ponds, eaten with porridge")
            .also("rush")
            .to("@", "grass")
            .to("#p", "marsh")
            .to("%s", "porridge")
            .to("#m", "fen"),
        noun(PLANT, "grass", 1, "a green plant"),
        noun(15, "marsh", 0, "a wet land"),
        noun(14, "fen", 0, "a group of a fen, a fen and a fen with fens"),
        noun(FOOD, "porridge", 4, "a mush made of porridge, of porridge and milk")
            .also("gruel")
            .to("@", "mush")
            .to("~", "skilly")
            .to("%s", "oat"),
        noun(FOOD, "mush", 0, "soft food of mush, with mush"),
        noun(FOOD, "skilly", 0, "thin mush, made of skilly"),
        noun(PLANT, "oat", 0, "a grain with oats"),
        noun(NAME, "Rhine", 3, "a river of the north"),
        noun(ANIMAL, "brute", 2, "an offensive word for a beast").also("beastie").to("@", "swimmer").to("%p", "tail"),
        noun(ANIMAL, "geese", 2, "more than one goose").also("x").to("@", "swimmer").to("%p", "tail"),
        noun(ANIMAL, "stray", 2, "a lost beast").to("@", "being"),
        noun(4, "dive", 3, "the act of a swimmer").also("plunge").to("@", "being"),
        noun(ANIMAL, "walk", 3, "a beast that walks").also("ambler").to("@", "swimmer").to("%p", "tail"),
    ]
}

fn folder() -> TempDir {
    write(&rows(), &[("geese", "goose"), ("newtes", "newt")])
}

fn make(folder: &Path, words: Option<&[&str]>, max_words: usize) -> Result<(LexiconReport, Lexicon, String), Error> {
    let file = folder.join("lexicon.toml");
    let words = words.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
    let report = write_lexicon(&WordNet::load(folder)?, &WordChoice { words, max_words }, &file)?;
    Ok((report, Lexicon::load(&file)?, fs::read_to_string(file).unwrap()))
}

#[test]
fn common_nouns_with_a_dominant_sense_and_enough_clues_are_chosen() {
    let folder = folder();
    let (report, lexicon, text) = make(folder.path(), None, 100).unwrap();
    assert_eq!(lexicon.words().collect::<Vec<_>>(), ["newt", "otter", "porridge", "reed"]);
    let left_out =
        |reason: &str| report.left_out.iter().find(|(own, _)| own.contains(reason)).map_or(0, |(_, words)| *words);
    // Rhine and geese; vessel; being and dive; brute; walk; stray, tail, ear and grass.
    for (reason, words) in
        [("no common noun", 2), ("dominates", 1), ("no category", 2), ("offensive", 1), ("players say", 1)]
    {
        assert_eq!(left_out(reason), words, "{reason}: {report}");
    }
    assert_eq!(left_out("fewer than three clues"), 4, "{report}");
    assert_eq!((report.words(), report.clues), (4, lexicon.entries().iter().map(|entry| entry.clues.len()).sum()));
    assert!(report.to_string().contains("4 words with"), "{report}");
    // The file carries the licence of its source.
    assert!(text.contains("# Our own licence.\n# Keep it.\n"), "{text}");
}

#[test]
fn clues_complete_a_sentence_with_articles_plurals_and_mass_nouns() {
    let folder = folder();
    let (_, lexicon, _) = make(folder.path(), None, 100).unwrap();
    assert_eq!(
        lexicon.clues("otter"),
        [
            "is a brown river swimmer with webbed feet",
            "is a kind of swimmer",
            "has a tail",
            "has an ear",
            "is part of a holt",
            // The names of the other kinds contain the word.
            "can be a clawless swimmer",
            "is also called a river dog",
        ]
    );
    // If a definition has no article, its head noun determines it.
    assert_eq!(lexicon.clues("newt")[0], "is a small swimmer of ponds");
    let reed = lexicon.clues("reed");
    for clue in ["is part of a marsh", "contains porridge", "belongs to a fen", "is also called a rush"] {
        assert!(reed.iter().any(|own| own == clue), "{clue}: {reed:?}");
    }
    let porridge = lexicon.clues("porridge");
    for clue in ["is a kind of mush", "can be skilly", "is also called gruel", "contains oats"] {
        assert!(porridge.iter().any(|own| own == clue), "{clue}: {porridge:?}");
    }
    assert!(!porridge.iter().any(|clue| clue.contains("made of")), "the definition has the word: {porridge:?}");
    let plurals: Vec<_> = lexicon.entries().iter().map(|entry| (&*entry.word, entry.plural.as_deref())).collect();
    // Irregular plurals that no definition uses are ignored.
    assert_eq!(
        plurals,
        [("newt", Some("newts")), ("otter", Some("otters")), ("porridge", None), ("reed", Some("reeds"))]
    );
    for entry in lexicon.entries() {
        let forms = word_forms(&entry.word);
        assert!(!entry.clues.iter().any(|clue| forms.iter().any(|form| clue.contains(form.as_str()))), "{entry:?}");
    }
}

#[test]
fn list_gives_the_words_and_their_order() {
    let folder = folder();
    let (report, lexicon, _) = make(folder.path(), Some(&["Reed", "nonsense", "otter", "reed", "newt"]), 2).unwrap();
    assert_eq!(lexicon.words().collect::<Vec<_>>(), ["otter", "reed"]);
    assert_eq!(report.left_out.iter().map(|(_, words)| words).sum::<usize>(), 2, "{report}");
    let error = make(folder.path(), Some(&["nonsense", "vessel"]), 2).unwrap_err();
    assert!(matches!(&error, Error::NoWords { .. }) && error.to_string().contains("1 are without a sense"), "{error}");
}

#[test]
fn cycles_and_pointers_to_nothing_are_harmless() {
    let mut rows = rows();
    rows[1] =
        noun(ANIMAL, "swimmer", 0, "any beast that swims").to("@", "otter").to("@", "swimmer").to("%p", "nothing");
    let folder = write(&rows, &[]);
    let (_, lexicon, _) = make(folder.path(), None, 100).unwrap();
    assert_eq!(lexicon.clues("newt")[1], "is a kind of swimmer");
}

#[test]
fn damaged_files_are_named_with_their_line() {
    for (name, old, new, line) in [
        ("data.noun", "05 n 02 otter 0", "05 n 03 otter 0", 5),
        ("data.noun", "| a tall grass", "a tall grass", 15),
        ("index.noun", "otter n 1 0 1 0", "otter n 2 0 1 0", 18),
        ("cntlist.rev", ":: 1 7", ":: 1 many", 2),
    ] {
        let folder = folder();
        damage(folder.path(), name, old, new);
        let error = WordNet::load(folder.path()).unwrap_err();
        let Error::WordNetLine { path, line: found } = &error else { panic!("{error}") };
        assert!(path.ends_with(name), "{error}");
        assert!(name == "index.noun" || *found == line, "{error}");
        assert!(error.to_string().contains("wordnet-base"), "{error}");
    }
    let folder = folder();
    fs::remove_file(folder.path().join("cntlist.rev")).unwrap();
    assert!(WordNet::load(folder.path()).unwrap_err().to_string().contains("cntlist.rev"));
}
