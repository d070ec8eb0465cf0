//! Lexicons of real words from the data files of WordNet 3.0, which are read and never shipped.

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

/// The most hypernyms of a synset on all levels.
const MAX_HYPERNYMS: usize = 60;

/// The nouns of WordNet, as its files `data.noun`, `index.noun`, `cntlist.rev` and `noun.exc` describe them (wninput(5WN),
/// wndb(5WN)).
#[derive(Debug)]
pub struct WordNet {
    /// By the number of their line's byte in `data.noun`.
    synsets: HashMap<u32, Synset>,
    /// The synsets of a noun in lower case, the most frequent sense first.
    index: HashMap<String, Vec<u32>>,
    /// How often a sense was found in tagged texts, by its sense key.
    counts: HashMap<String, u32>,
    /// Irregular plurals by their singular.
    irregular: HashMap<String, Vec<String>>,
    /// The lines of the licence, which every file made of this carries.
    licence: Vec<String>,
}

/// A set of synonyms with one meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Synset {
    /// The number of its lexicographer file, which tells its kind: 5 is `noun.animal`.
    kind: u8,
    /// Each lemma, with blanks for underscores, and its number in the lexicographer file.
    lemmas: Vec<(String, u8)>,
    /// Pointers to other nouns.
    pointers: Vec<(Relation, u32)>,
    /// The definition, with examples after it.
    gloss: String,
}

/// What the target of a pointer is to its synset.
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
    /// The relation of a pointer symbol; `None` for those that no clue is made of.
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
    /// A file cannot be read, is larger than any version of WordNet, or has a line of another format. The error names file and
    /// line.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self> {
        read::load(folder.as_ref())
    }

    fn synset(&self, offset: u32) -> Option<&Synset> {
        self.synsets.get(&offset)
    }

    /// The synsets that pointers of a relation lead to. Pointers to missing synsets are left out.
    fn targets<'a>(&'a self, synset: &'a Synset, relation: Relation) -> impl Iterator<Item = &'a Synset> {
        let of_relation = synset.pointers.iter().filter(move |(own, _)| *own == relation);
        of_relation.filter_map(|(_, offset)| self.synset(*offset))
    }

    /// The most frequent sense of a noun that is spelled without a capital in it.
    fn first_sense(&self, noun: &str) -> Option<&Synset> {
        let synset = self.synset(*self.index.get(noun)?.first()?)?;
        synset.lemmas.iter().any(|(lemma, _)| lemma == noun).then_some(synset)
    }

    /// What a synset is a kind of, the nearest first, each once. Damaged files may have cycles.
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
        // The list grows behind the position that is read, level by level.
        let mut at = 0;
        while let Some(offset) = found.get(at).copied() {
            self.synset(offset).into_iter().for_each(|above| add(above, &mut found));
            at += 1;
        }
        found.into_iter().filter_map(|offset| self.synset(offset)).collect()
    }

    /// How often the lemma with this meaning was found in tagged texts.
    fn count(&self, lemma: &str, synset: &Synset) -> u32 {
        let number =
            synset.lemmas.iter().find(|(text, _)| text.to_lowercase() == lemma).map_or(0, |(_, number)| *number);
        let key = format!("{}%1:{:02}:{number:02}::", lemma.replace(' ', "_"), synset.kind);
        self.counts.get(&key).copied().unwrap_or(0)
    }
}
