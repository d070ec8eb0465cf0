//! Which samples of a file are of one game, found from their tokens.

use std::ops::Range;

use crate::trajectory::Trajectory;

/// How many rows before it a row can continue.
const REACH: usize = 64;

/// Splits samples, in the order of their file, into runs of consecutive ones that belong together.
///
/// A sample continues the last one before it whose prompt and target its own prompt begins with, as the prompts of a player in
/// the course of a game do. All samples from one to the other are of that game: a game's rows follow one another.
pub(crate) fn game_groups(samples: &[Trajectory]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let prompt = &sample.ids[..sample.prompt_len()];
        let before =
            (index.saturating_sub(REACH)..index).rev().find(|before| prompt.starts_with(said(&samples[*before])));
        let first = before.unwrap_or(index);
        // Groups between the two join that of the first.
        let joined = groups.iter().rev().take_while(|group| group.start > first).count();
        groups.truncate(groups.len() - joined);
        match groups.last_mut().filter(|group| group.contains(&first)) {
            Some(group) => group.end = index + 1,
            None => groups.push(first..index + 1),
        }
    }
    groups
}

/// The tokens up to the end of the target, without the one that ends it.
fn said(sample: &Trajectory) -> &[u32] {
    let end = sample.spans.last().map_or(sample.ids.len(), |span| span.tokens.end);
    &sample.ids[..end.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::Span;

    /// A sample whose target and EOS (0) follow its prompt.
    fn sample(prompt: &[u32], target: &[u32]) -> Trajectory {
        let ids = [prompt, target, &[0]].concat();
        let spans = vec![Span::new(prompt.len()..ids.len(), 1.0)];
        Trajectory { row: 0, ids, spans }
    }

    #[test]
    fn turns_of_both_players_are_one_game() {
        // Players 1 and 2 have rules of their own.
        let game = |word: u32| {
            [
                sample(&[1, word], &[10]),
                sample(&[2, 10], &[11]),
                sample(&[1, word, 10, 11], &[12]),
                sample(&[2, 10, 11, 12], &[13]),
            ]
        };
        let samples = [game(5), game(6)].concat();
        assert_eq!(game_groups(&samples), [0..4, 4..8]);
        // Games that begin with the same turns are different ones.
        let samples = [game(5), game(5)].concat();
        assert_eq!(game_groups(&samples), [0..4, 4..8]);
    }

    #[test]
    fn samples_that_continue_none_stand_alone() {
        let samples = [sample(&[1, 2], &[3]), sample(&[1, 2], &[3]), sample(&[1, 2], &[4]), sample(&[9], &[3, 4])];
        assert_eq!(game_groups(&samples), [0..1, 1..2, 2..3, 3..4]);
        assert!(game_groups(&[]).is_empty());
    }
}
