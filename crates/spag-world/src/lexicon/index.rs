//! Finds clues in a text by looking up every run of words, so that the time is independent of the number of clues.

use std::collections::{BTreeSet, HashMap};

/// All clues of a lexicon in lower case with their words, longest first.
#[derive(Clone, Debug, Default)]
pub(super) struct ClueIndex {
    /// A clue and the indices of its words in the lexicon, ascending.
    clues: Vec<(String, Vec<usize>)>,
    by_text: HashMap<String, usize>,
    /// The clue lengths that occur, in words.
    lengths: BTreeSet<usize>,
}

/// An occurrence of a clue in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClueMatch {
    /// The index of the clue.
    clue: usize,
    start: usize,
    end: usize,
}

impl ClueIndex {
    /// Indexes the clues of each word, in lower case.
    pub(super) fn new(clues: impl Iterator<Item = (usize, String)>) -> Self {
        let mut words: HashMap<String, Vec<usize>> = HashMap::new();
        clues.for_each(|(word, clue)| words.entry(clue).or_default().push(word));
        let mut clues: Vec<(String, Vec<usize>)> = words.into_iter().collect();
        // A short clue may be part of a long one.
        clues.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        let by_text = clues.iter().enumerate().map(|(number, (clue, _))| (clue.clone(), number)).collect();
        let lengths = clues.iter().map(|(clue, _)| words_of(clue).count()).filter(|length| *length > 0).collect();
        Self { clues, by_text, lengths }
    }

    /// All clues with the indices of their words, longest first.
    pub(super) fn clues(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.clues.iter().map(|(clue, words)| (clue.as_str(), words.as_slice()))
    }

    /// Removes all clues from a lower-cased text, as whole words and longest first: a clue inside a longer one does not
    /// count. Returns them with their words, and the rest of the text.
    pub(super) fn take_from(&self, lower: &str) -> (Vec<(&str, &[usize])>, String) {
        let mut matches = self.matches(lower);
        matches.sort_unstable();
        let (mut taken, mut found): (BTreeSet<(usize, usize)>, Vec<_>) = (BTreeSet::new(), Vec::new());
        for ClueMatch { clue, start, end } in matches {
            // Taken ranges do not overlap, so only the last one that begins before `end` can conflict.
            let is_free = taken.range(..(end, 0)).next_back().is_none_or(|(_, before)| *before <= start);
            if let (true, Some((text, words))) = (is_free, self.clues.get(clue)) {
                taken.insert((start, end));
                found.push((text.as_str(), words.as_slice()));
            }
        }
        let mut rest = String::with_capacity(lower.len());
        let mut at = 0;
        for (start, end) in taken {
            rest.push_str(lower.get(at..start).unwrap_or_default());
            rest.push(' ');
            at = end;
        }
        rest.push_str(lower.get(at..).unwrap_or_default());
        (found, rest)
    }

    fn matches(&self, lower: &str) -> Vec<ClueMatch> {
        let words: Vec<(usize, usize)> = words_of(lower).collect();
        let longest = self.clues.first().map_or(0, |(clue, _)| clue.len());
        let mut matches = Vec::new();
        for (first, (start, _)) in words.iter().enumerate() {
            let ends = self.lengths.iter().map_while(|length| words.get(first + length - 1)).map(|(_, end)| *end);
            for end in ends.take_while(|end| end - start <= longest) {
                let clue = lower.get(*start..end).and_then(|text| self.by_text.get(text));
                matches.extend(clue.map(|clue| ClueMatch { clue: *clue, start: *start, end }));
            }
        }
        matches
    }
}

/// The start and end of each word, a run of letters and digits.
fn words_of(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let is_letter = |(_, c): &(usize, char)| c.is_alphanumeric();
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while chars.next_if(|c| !is_letter(c)).is_some() {}
        let (start, first) = chars.next_if(is_letter)?;
        let mut end = start + first.len_utf8();
        while let Some((at, c)) = chars.next_if(is_letter) {
            end = at + c.len_utf8();
        }
        Some((start, end))
    })
}

/// Whether a text contains `needle` as whole words.
pub(super) fn contains_whole(text: &str, needle: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(needle).any(|(at, found)| {
        let (before, rest) = text.split_at(at);
        !is_letter(before.chars().next_back()) && !is_letter(rest[found.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(clues: &[&str]) -> ClueIndex {
        ClueIndex::new(clues.iter().enumerate().map(|(word, clue)| (word, (*clue).to_owned())))
    }

    fn found(clues: &[&str], text: &str) -> (Vec<String>, String) {
        let index = index(clues);
        let (found, rest) = index.take_from(text);
        (found.into_iter().map(|(clue, _)| clue.to_owned()).collect(), rest)
    }

    #[test]
    fn longest_clue_is_taken_and_every_occurrence_counts() {
        let clues = ["has fur", "has fur and claws", "has a long, thin tail", "claws"];
        assert_eq!(
            found(&clues, "it has fur and claws; it has fur."),
            (vec!["has fur and claws".into(), "has fur".into()], "it  ; it  .".into())
        );
        assert_eq!(found(&clues, "has a long, thin tail").0, ["has a long, thin tail"]);
        assert_eq!(found(&clues, "has fur has fur").0.len(), 2);
        // Whole words only, with the same blanks.
        for text in ["has furs", "xhas fur", "has  fur", "has a long thin tail", "élclaws", ""] {
            assert_eq!(found(&clues, text), (vec![], text.to_owned()), "{text}");
        }
    }

    #[test]
    fn overlapping_clues_are_not_counted_twice() {
        assert_eq!(found(&["a b c", "c d", "d e f"], "a b c d e f").0, ["a b c", "d e f"]);
        assert_eq!(found(&["b c d", "a b", "d e"], "a b c d e").0, ["b c d"]);
    }

    #[test]
    fn words_of_a_clue_are_ascending() {
        let index = ClueIndex::new([(0, "x".to_owned()), (3, "x".to_owned()), (1, "y".to_owned())].into_iter());
        assert_eq!(index.clues().collect::<Vec<_>>(), [("x", &[0, 3][..]), ("y", &[1][..])]);
    }
}
