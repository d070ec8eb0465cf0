//! Which samples of a file are of one game, found from their tokens.

use std::ops::Range;

use spag_rewards::SampleKind;

use crate::trajectory::Trajectory;

/// How many rows before it a row can continue.
const REACH: usize = 64;

/// Splits samples, in the order of their file, into runs of consecutive ones that belong together.
///
/// A sample of a game continues the last one before it whose prompt it has with more tokens at one place: at the end, or before
/// an instruction that stays the last. All samples from one to the other are of that game: a game's rows follow one another.
pub(crate) fn game_groups(samples: &[Trajectory]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let reach = index.saturating_sub(REACH)..index;
        let first = reach.rev().find(|before| continues(&samples[*before], sample)).unwrap_or(index);
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

/// Whether the prompt of `sample`, an utterance of a game, is that of `before` with more tokens at one place.
fn continues(before: &Trajectory, sample: &Trajectory) -> bool {
    let of_game = |sample: &Trajectory| sample.spans.iter().all(|span| span.kind == SampleKind::Game);
    let (shorter, prompt) = (&before.ids[..before.prompt_len()], &sample.ids[..sample.prompt_len()]);
    if shorter.len() >= prompt.len() || !of_game(before) || !of_game(sample) {
        return false;
    }
    let begin = shorter.iter().zip(prompt).take_while(|(one, other)| one == other).count();
    let rest = shorter[begin..].iter().rev().zip(prompt.iter().rev());
    begin + rest.take_while(|(one, other)| one == other).count() == shorter.len()
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
        // Players 1 and 2 have rules of their own; what they say follows a 9.
        let game = |word: u32| {
            [
                sample(&[1, word], &[10]),
                sample(&[2, 9, 10], &[11]),
                sample(&[1, word, 9, 10, 9, 11], &[12]),
                sample(&[2, 9, 10, 9, 11, 9, 12], &[13]),
            ]
        };
        let samples = [game(5), game(6)].concat();
        assert_eq!(game_groups(&samples), [0..4, 4..8]);
        // Games that begin with the same turns are different ones.
        let samples = [game(5), game(5)].concat();
        assert_eq!(game_groups(&samples), [0..4, 4..8]);
    }

    #[test]
    fn instructions_may_come_last() {
        let game = |word: u32| {
            [
                sample(&[1, 8, word], &[10]),
                sample(&[1, 7, 10, 11, 8, word], &[12]),
                sample(&[1, 7, 10, 11, 12, 13, 8, word], &[14]),
            ]
        };
        let samples = [game(5), game(6), game(5)].concat();
        assert_eq!(game_groups(&samples), [0..3, 3..6, 6..9]);
    }

    #[test]
    fn samples_that_continue_none_stand_alone() {
        let mut samples = vec![sample(&[1, 2], &[3]), sample(&[1, 2], &[3]), sample(&[1, 4], &[4]), sample(&[9], &[3])];
        assert_eq!(game_groups(&samples), [0..1, 1..2, 2..3, 3..4]);
        assert!(game_groups(&[]).is_empty());
        // Demonstrations are no games, whatever their texts are.
        samples.push(sample(&[9, 9], &[3]));
        assert_eq!(game_groups(&samples)[3..], [3..5]);
        samples[4].spans[0].kind = SampleKind::Sft;
        assert_eq!(game_groups(&samples)[3..], [3..4, 4..5]);
    }
}
