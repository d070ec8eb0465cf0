//! Parsers of WordNet's files. Their content is untrusted: every field is checked, and sizes are bounded.

use std::collections::HashMap;
use std::path::Path;

use super::{Relation, Synset, WordNet};
use crate::error::{Error, Result};

/// Maximum bytes of a file; `data.noun` of WordNet 3.1 has 16 MB.
const MAX_BYTES: u64 = 1 << 26;
/// Maximum lines of the licence; WordNet 3.0 has 29.
const MAX_LICENCE_LINES: usize = 100;

pub(super) fn load(folder: &Path) -> Result<WordNet> {
    let mut wordnet = WordNet {
        synsets: HashMap::new(),
        index: HashMap::new(),
        counts: HashMap::new(),
        irregular: HashMap::new(),
        licence: Vec::new(),
    };
    let data = folder.join("data.noun");
    wordnet.licence = licence(&spag_io::read_text(&data, MAX_BYTES)?);
    lines(&data, |line| {
        let (offset, synset) = parse_synset(line)?;
        wordnet.synsets.insert(offset, synset);
        Some(())
    })?;
    lines(&folder.join("index.noun"), |line| {
        let (lemma, senses) = parse_index(line)?;
        wordnet.index.insert(lemma, senses);
        Some(())
    })?;
    lines(&folder.join("cntlist.rev"), |line| {
        let mut fields = line.split_ascii_whitespace();
        let (key, _, count) = (fields.next()?, fields.next()?, fields.next()?);
        wordnet.counts.insert(key.to_owned(), count.parse().ok()?);
        Some(())
    })?;
    lines(&folder.join("noun.exc"), |line| {
        let mut words = line.split_ascii_whitespace();
        let plural = words.next()?;
        words.for_each(|word| wordnet.irregular.entry(word.to_owned()).or_default().push(plural.to_owned()));
        Some(())
    })?;
    Ok(wordnet)
}

/// The numbered lines before the first synset, without their numbers.
fn licence(text: &str) -> Vec<String> {
    let numbered = text.lines().take(MAX_LICENCE_LINES).take_while(|line| line.starts_with("  "));
    let line =
        |line: &str| line.trim().trim_start_matches(|c: char| c.is_ascii_digit()).trim().replace(char::is_control, " ");
    numbered.map(line).collect()
}

/// Calls `parse` for every line except those of the licence, which begin with two blanks.
fn lines(path: &Path, mut parse: impl FnMut(&str) -> Option<()>) -> Result<()> {
    let text = spag_io::read_text(path, MAX_BYTES)?;
    for (line, content) in (1..).zip(text.lines()) {
        if !content.starts_with("  ") && !content.is_empty() {
            parse(content).ok_or_else(|| Error::WordNetLine { path: path.to_owned(), line })?;
        }
    }
    Ok(())
}

/// Parses a line of `data.noun`: offset, lexicographer file, `n`, count and pairs of lemmas, count and pointers, `|`,
/// gloss.
fn parse_synset(line: &str) -> Option<(u32, Synset)> {
    let (fields, gloss) = line.split_once('|')?;
    let mut fields = fields.split_ascii_whitespace();
    let offset = fields.next()?.parse().ok()?;
    let kind = fields.next()?.parse().ok()?;
    fields.next().filter(|kind| *kind == "n")?;
    // No preallocation, since the stated count is untrusted.
    let mut lemmas = Vec::new();
    for _ in 0..u16::from_str_radix(fields.next()?, 16).ok()? {
        let lemma = fields.next()?.replace('_', " ");
        lemmas.push((lemma, u8::from_str_radix(fields.next()?, 16).ok()?));
    }
    let mut pointers = Vec::new();
    for _ in 0..fields.next()?.parse::<u16>().ok()? {
        let (symbol, target): (&str, u32) = (fields.next()?, fields.next()?.parse().ok()?);
        let (part_of_speech, _) = (fields.next()?, fields.next()?);
        pointers.extend(Relation::of(symbol).filter(|_| part_of_speech == "n").map(|relation| (relation, target)));
    }
    (!lemmas.is_empty()).then(|| (offset, Synset { kind, lemmas, pointers, gloss: gloss.trim().to_owned() }))
}

/// Parses a line of `index.noun`: lemma, `n`, number of synsets, count and symbols of pointers, two counts,
/// offsets.
fn parse_index(line: &str) -> Option<(String, Vec<u32>)> {
    let mut fields = line.split_ascii_whitespace();
    let lemma = fields.next()?.replace('_', " ");
    fields.next().filter(|kind| *kind == "n")?;
    let synsets: usize = fields.next()?.parse().ok()?;
    let symbols: usize = fields.next()?.parse().ok()?;
    let offsets: Vec<u32> =
        fields.skip(symbols.checked_add(2)?).map(|offset| offset.parse().ok()).collect::<Option<_>>()?;
    (offsets.len() == synsets && synsets > 0).then_some((lemma, offsets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synset_has_lemmas_pointers_to_nouns_and_a_gloss() {
        let line = "00000100 05 n 02 sea_otter 0 Enhydra 1 004 @ 00000200 n 0000 %p 00000300 n 0000 + 00000400 v 0101 \
                    ~ 00000500 n 0000 | a wet animal; \"it swims\"  ";
        let synset = Synset {
            kind: 5,
            lemmas: vec![("sea otter".into(), 0), ("Enhydra".into(), 1)],
            pointers: vec![(Relation::Hypernym, 200), (Relation::HasPart, 300), (Relation::Hyponym, 500)],
            gloss: "a wet animal; \"it swims\"".into(),
        };
        assert_eq!(parse_synset(line), Some((100, synset)));
        assert_eq!(
            parse_index("sea_otter n 2 2 @ %p 2 1 00000100 00000300 "),
            Some(("sea otter".into(), vec![100, 300]))
        );
    }

    #[test]
    fn damaged_lines_are_refused() {
        for line in [
            "",
            "x",
            "00000100 05 n 02 otter 0 000 | a wet animal",
            "00000100 05 n ffff otter 0 000 | a wet animal",
            "00000100 05 n zz otter 0 000 | a wet animal",
            "00000100 05 v 01 otter 0 000 | a wet animal",
            "00000100 05 n 01 otter 0 999 @ 00000200 n 0000 | a wet animal",
            "00000100 05 n 01 otter 0 001 @ 99999999999 n 0000 | a wet animal",
            "00000100 999 n 01 otter 0 000 | a wet animal",
            "00000100 05 n 00 000 | a wet animal",
            "00000100 05 n 01 otter 0 000",
        ] {
            assert_eq!(parse_synset(line), None, "{line}");
        }
        for line in [
            "otter",
            "otter n 1 0 1 0",
            "otter n 2 0 1 0 00000100",
            "otter n 0 0 1 0",
            "otter n 1 18446744073709551615 1 0 5",
        ] {
            assert_eq!(parse_index(line), None, "{line}");
        }
    }
}
