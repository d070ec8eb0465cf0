//! A folder in the format of WordNet's files, with our own nouns and definitions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// Kinds of nouns: the numbers of lexicographer files.
pub(crate) const ANIMAL: u8 = 5;
pub(crate) const ARTIFACT: u8 = 6;
pub(crate) const BODY: u8 = 8;
pub(crate) const FOOD: u8 = 13;
pub(crate) const NAME: u8 = 15;
pub(crate) const PLANT: u8 = 20;

/// A synset to write.
pub(crate) struct Row {
    kind: u8,
    lemmas: Vec<&'static str>,
    pointers: Vec<(&'static str, &'static str)>,
    gloss: String,
    /// Count of the first lemma with this meaning in tagged texts.
    count: u32,
}

/// A noun with its definition.
pub(crate) fn noun(kind: u8, lemma: &'static str, count: u32, gloss: &str) -> Row {
    Row { kind, lemmas: vec![lemma], pointers: Vec::new(), gloss: gloss.to_owned(), count }
}

impl Row {
    pub(crate) fn also(mut self, lemma: &'static str) -> Self {
        self.lemmas.push(lemma);
        self
    }

    /// A pointer to the first synset that has this lemma.
    pub(crate) fn to(mut self, symbol: &'static str, target: &'static str) -> Self {
        self.pointers.push((symbol, target));
        self
    }
}

/// Writes the four files.
pub(crate) fn write(rows: &[Row], irregular: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let offset = |at: usize| 1000 + 10 * at;
    let find = |lemma: &str| rows.iter().position(|row| row.lemmas.contains(&lemma)).unwrap_or(90_000);
    let (mut data, mut counts) = ("  1 Our own licence.\n  2 Keep it.\n".to_owned(), String::new());
    let mut index: BTreeMap<String, Vec<(u32, usize)>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let lemmas: String = row.lemmas.iter().map(|lemma| format!("{} 0 ", lemma.replace(' ', "_"))).collect();
        let pointers: String =
            row.pointers.iter().map(|(symbol, to)| format!("{symbol} {:08} n 0000 ", offset(find(to)))).collect();
        data += &format!(
            "{:08} {:02} n {:02x} {lemmas}{:03} {pointers}| {}  \n",
            offset(at),
            row.kind,
            row.lemmas.len(),
            row.pointers.len(),
            row.gloss
        );
        for (number, lemma) in row.lemmas.iter().enumerate() {
            let count = if number == 0 { row.count } else { 0 };
            index.entry(lemma.to_lowercase()).or_default().push((count, at));
            if count > 0 {
                counts += &format!("{}%1:{:02}:00:: 1 {count}\n", lemma.to_lowercase(), row.kind);
            }
        }
    }
    let mut lines = String::new();
    for (lemma, mut senses) in index {
        // The most frequent sense first, as in WordNet.
        senses.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let offsets: String = senses.iter().map(|(_, at)| format!("{:08} ", offset(*at))).collect();
        lines += &format!("{} n {} 0 {} 0 {offsets} \n", lemma.replace(' ', "_"), senses.len(), senses.len());
    }
    let irregular: String = irregular.iter().map(|(plural, singular)| format!("{plural} {singular}\n")).collect();
    let files = [("data.noun", data), ("index.noun", lines), ("cntlist.rev", counts), ("noun.exc", irregular)];
    files.into_iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    folder
}

/// Replaces a part of a file in the folder.
pub(crate) fn damage(folder: &Path, name: &str, old: &str, new: &str) {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    assert!(text.contains(old), "{name} has {old}");
    fs::write(folder.join(name), text.replacen(old, new, 1)).unwrap();
}
