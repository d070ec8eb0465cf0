//! Builds lexicons of real words from the data files of WordNet 3.0, which are not distributed with this crate.

mod choose;
mod clues;
mod nouns;
mod read;
mod usage;
mod write;

use std::collections::HashMap;
use std::path::Path;

pub use choose::WordChoice;
pub use write::{LexiconReport, write_lexicon};

use crate::error::Result;

/// Maximum hypernyms of a synset, over all levels.
const MAX_HYPERNYMS: usize = 60;

/// The nouns of WordNet, from its files `data.noun`, `index.noun`, `cntlist.rev` and `noun.exc` (wninput(5WN), wndb(5WN)).
#[derive(Debug)]
pub struct WordNet {
    /// Synsets by their byte offset in `data.noun`.
    synsets: HashMap<u32, Synset>,
    /// The synsets of a lower-case noun, most frequent sense first.
    index: HashMap<String, Vec<u32>>,
    /// Counts of senses in tagged texts, by sense key.
    counts: HashMap<String, u32>,
    /// Irregular plurals by their singular.
    irregular: HashMap<String, Vec<String>>,
    /// The lines of the licence, copied to every derived file.
    licence: Vec<String>,
}

/// A set of synonyms with one meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Synset {
    /// The number of its lexicographer file, which defines its kind: 5 is `noun.animal`.
    kind: u8,
    /// Each lemma, with blanks for underscores, and its number in the lexicographer file.
    lemmas: Vec<(String, u8)>,
    /// Pointers to other nouns.
    pointers: Vec<(Relation, u32)>,
    /// The definition, followed by examples.
    gloss: String,
}

/// The relation of a pointer's target to its synset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Hypernym,
    Hyponym,
    /// The target is a part.
    HasPart,
    /// The target is a member.
    HasMember,
    /// The target is a substance of it.
    HasSubstance,
    PartOf,
    MemberOf,
    SubstanceOf,
    /// The target names a usage: slang, a trade name …
    Usage,
}

impl Relation {
    /// The relation of a pointer symbol; `None` for those not used in clues.
    fn of(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "@" => Self::Hypernym,
            "~" => Self::Hyponym,
            "%p" => Self::HasPart,
            "%m" => Self::HasMember,
            "%s" => Self::HasSubstance,
            "#p" => Self::PartOf,
            "#m" => Self::MemberOf,
            "#s" => Self::SubstanceOf,
            ";u" => Self::Usage,
            _ => return None,
        })
    }
}

impl WordNet {
    /// Reads the files of a folder: `/usr/share/wordnet` with Debian's package wordnet-base.
    ///
    /// # Errors
    /// A file cannot be read, is larger than in any version of WordNet, or has a malformed line. The error names file and
    /// line.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self> {
        read::load(folder.as_ref())
    }

    fn synset(&self, offset: u32) -> Option<&Synset> {
        self.synsets.get(&offset)
    }

    /// The targets of a relation. Pointers to missing synsets are skipped.
    fn targets<'a>(&'a self, synset: &'a Synset, relation: Relation) -> impl Iterator<Item = &'a Synset> {
        let of_relation = synset.pointers.iter().filter(move |(own, _)| *own == relation);
        of_relation.filter_map(|(_, offset)| self.synset(*offset))
    }

    /// The most frequent sense of a noun that is spelled without capitals.
    fn first_sense(&self, noun: &str) -> Option<&Synset> {
        let synset = self.synset(*self.index.get(noun)?.first()?)?;
        synset.lemmas.iter().any(|(lemma, _)| lemma == noun).then_some(synset)
    }

    /// The hypernyms of a synset, nearest first, without duplicates. Damaged files may have cycles.
    fn hypernyms(&self, synset: &Synset) -> Vec<&Synset> {
        let mut found: Vec<u32> = Vec::new();
        let add = |synset: &Synset, found: &mut Vec<u32>| {
            let hypernyms = synset.pointers.iter().filter(|(relation, _)| *relation == Relation::Hypernym);
            for (_, offset) in hypernyms {
                if found.len() < MAX_HYPERNYMS && !found.contains(offset) {
                    found.push(*offset);
                }
            }
        };
        add(synset, &mut found);
        // Breadth-first search: the list grows while it is read.
        let mut at = 0;
        while let Some(offset) = found.get(at).copied() {
            self.synset(offset).into_iter().for_each(|above| add(above, &mut found));
            at += 1;
        }
        found.into_iter().filter_map(|offset| self.synset(offset)).collect()
    }

    /// The count of the lemma with this meaning in tagged texts.
    fn count(&self, lemma: &str, synset: &Synset) -> u32 {
        let number =
            synset.lemmas.iter().find(|(text, _)| text.to_lowercase() == lemma).map_or(0, |(_, number)| *number);
        let key = format!("{}%1:{:02}:{number:02}::", lemma.replace(' ', "_"), synset.kind);
        self.counts.get(&key).copied().unwrap_or(0)
    }
}
