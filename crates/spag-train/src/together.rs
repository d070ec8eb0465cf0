//! What the ranks of a step tell each other: its loss, its norm, whose samples are not sound.

use spag_dist::{ProcessGroup, gather_numbers, gather_texts};

use crate::error::Result;
use crate::loss::Parts;
use crate::step::Passes;

/// A step of all ranks together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Together {
    /// The mean of all micro-batches' losses.
    pub(crate) loss: f64,
    pub(crate) parts: Parts,
    /// Tokens read.
    pub(crate) tokens: u64,
    /// The sum of the squares of all gradients.
    pub(crate) squared_norm: f64,
}

/// Puts the step's passes of all ranks together. Micro-batch m of the step is that of rank m modulo their number, and
/// `micro_batches` is how many there are.
///
/// Losses are added up in the order of the micro-batches, as one process does.
pub(crate) fn together(
    group: &dyn ProcessGroup,
    done: &Passes,
    squared_norm: f64,
    micro_batches: usize,
) -> Result<Together> {
    let ranks = group.size();
    // As many from each rank: what one has less is filled up and never looked at.
    let rounds = micro_batches.div_ceil(ranks);
    let mut own = vec![squared_norm, done.tokens as f64];
    for (loss, parts) in &done.losses {
        own.push(*loss);
        own.extend(parts.to_numbers());
    }
    own.resize(HEAD + rounds * EACH, 0.0);
    let all = gather_numbers(group, &own)?;
    let share = 1.0 / micro_batches.max(1) as f64;
    let (mut loss, mut parts) = (0.0, Vec::with_capacity(micro_batches));
    for micro in 0..micro_batches {
        let at = &all[micro % ranks][HEAD + micro / ranks * EACH..][..EACH];
        loss += at[0] * share;
        let mut numbers = [0.0; Parts::NUMBERS];
        numbers.copy_from_slice(&at[1..]);
        parts.push(Parts::from_numbers(numbers));
    }
    Ok(Together {
        loss,
        parts: Parts::together(&parts),
        tokens: all.iter().map(|rank| rank[1] as u64).sum(),
        squared_norm: all.iter().map(|rank| rank[0]).sum(),
    })
}

/// The squared norm and the tokens.
const HEAD: usize = 2;
/// The loss and its parts.
const EACH: usize = 1 + Parts::NUMBERS;

/// The rows of all ranks.
pub(crate) fn rows_of_all(group: &dyn ProcessGroup, own: &[usize]) -> Result<Vec<usize>> {
    let own: Vec<String> = own.iter().map(usize::to_string).collect();
    let texts = gather_texts(group, &own.join(" "))?;
    Ok(texts.iter().flat_map(|text| text.split_whitespace()).filter_map(|row| row.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use spag_dist::Single;

    use super::*;

    #[test]
    fn alone_a_step_is_its_own_passes() {
        let parts = |sft| Parts { sft: Some(sft), ..Parts::default() };
        let done = Passes { losses: vec![(1.0, parts(1.0)), (4.0, parts(4.0))], tokens: 7, unsound_rows: vec![3, 1] };
        let step = together(&Single, &done, 9.0, 2).unwrap();
        assert_eq!(step, Together { loss: 2.5, parts: parts(2.5), tokens: 7, squared_norm: 9.0 });
        assert_eq!(rows_of_all(&Single, &done.unsound_rows).unwrap(), [3, 1]);
    }
}
