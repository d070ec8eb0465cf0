//! Computes the tokens allowed by grammars concurrently with the forward pass.

use std::thread;

use super::grammar::{AllowedTokens, GrammarState};
use super::schedule::ScheduledChunk;
use super::sequence::Sequence;
use crate::error::RequestError;
use spag_ops::sample::TokenSet;

/// A sequence index with its grammar state.
type Held = (usize, Box<dyn GrammarState>);

/// The allowed tokens of each.
type Computed = Vec<(Held, Result<AllowedTokens, String>)>;

/// Takes the grammar states of the sequences that sample a token in this step. [`give_back`] returns them.
pub(super) fn take(chunks: &[ScheduledChunk], running: &mut [Sequence]) -> Vec<Held> {
    let mut held = Vec::new();
    for chunk in chunks {
        let sequence = &mut running[chunk.sequence];
        if chunk.completes(sequence) && sequence.generates() && !sequence.is_reasoning() {
            held.extend(sequence.grammar.take().map(|state| (chunk.sequence, state)));
        }
    }
    held
}

/// Computes the allowed tokens on another thread, concurrently with `step`.
pub(super) fn beside<T>(mut held: Vec<Held>, step: impl FnOnce() -> T) -> (T, Computed) {
    if held.is_empty() {
        return (step(), Vec::new());
    }
    let allowed = move || {
        let allowed: Vec<_> = held.iter_mut().map(|(_, state)| state.allowed()).collect();
        held.into_iter().zip(allowed).collect()
    };
    thread::scope(|scope| {
        let allowed = scope.spawn(allowed);
        let stepped = step();
        // Without the states of a panicked thread, the sequences would continue unconstrained.
        let allowed = allowed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (stepped, allowed)
    })
}

/// Returns the states taken by [`take`] to their sequences, with the allowed tokens; `ends` are end-of-text tokens. Returns
/// the sequences that failed.
pub(super) fn give_back(computed: Computed, running: &mut [Sequence], ends: &[u32]) -> Vec<(usize, RequestError)> {
    let mut failed = Vec::new();
    for ((at, state), allowed) in computed {
        let sequence = &mut running[at];
        sequence.grammar = Some(state);
        match allowed {
            Ok(allowed) => sequence.allowed = Some(with_ends(allowed, ends, &sequence.config.stop_tokens)),
            Err(reason) => failed.push((at, RequestError::Grammar(reason))),
        }
    }
    failed
}

/// The allowed tokens, including end-of-text tokens if the text may end.
fn with_ends(AllowedTokens { mut words, end }: AllowedTokens, eos: &[u32], stop: &[u32]) -> TokenSet {
    for token in eos.iter().chain(stop) {
        let (word, bit) = (*token as usize / 32, 1 << (token % 32));
        if word >= words.len() {
            words.resize(word + 1, 0);
        }
        words[word] = if end { words[word] | bit } else { words[word] & !bit };
    }
    TokenSet::of_words(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_end_a_text_are_allowed_where_it_may_end() {
        let of = |end| with_ends(AllowedTokens { words: vec![0b1010], end }, &[1, 40], &[2]);
        let tokens = |set: TokenSet| (0..70).filter(|token| set.contains(*token)).collect::<Vec<_>>();
        assert_eq!((tokens(of(true)), tokens(of(false))), (vec![1, 2, 3, 40], vec![3]));
    }

    #[test]
    fn step_is_run_without_grammars() {
        assert_eq!(beside(Vec::new(), || 3).0, 3);
    }
}
