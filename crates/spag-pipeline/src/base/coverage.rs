//! How many words of the world are single pieces.

use std::collections::BTreeSet;

use spag_model::Tokenizer;
use spag_selfplay::Rate;
use spag_world::Lexicon;

use crate::error::Result;

/// Shares of words that are one piece after a space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Coverage {
    pub(super) targets: Rate,
    pub(super) clues: Rate,
}

pub(super) fn coverage(tokenizer: &Tokenizer, lexicon: &Lexicon) -> Result<Coverage> {
    let targets: BTreeSet<&str> = lexicon.words().collect();
    let clues: BTreeSet<&str> =
        lexicon.words().flat_map(|word| lexicon.clues(word)).flat_map(|clue| clue.split_whitespace()).collect();
    Ok(Coverage { targets: whole(tokenizer, &targets)?, clues: whole(tokenizer, &clues)? })
}

fn whole(tokenizer: &Tokenizer, words: &BTreeSet<&str>) -> Result<Rate> {
    let mut count = 0;
    for word in words {
        count += usize::from(tokenizer.encode(word)?.len() == 1);
    }
    Ok(Rate::new(count, words.len()))
}
