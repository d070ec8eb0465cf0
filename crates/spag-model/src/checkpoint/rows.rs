//! Restores Hugging Face's row order of queries and keys.

use rayon::prelude::*;

/// De-interleaves the rows of each head: first those of its first half, then those of its second. `head` is the number
/// of rows per head, `width` the elements per row; both are non-zero.
pub(super) fn separate_halves<T: Copy + Send + Sync>(values: &mut [T], head: usize, width: usize) {
    values.par_chunks_exact_mut(head * width).for_each_init(Vec::new, |copy, values| {
        copy.clear();
        copy.extend_from_slice(values);
        let (first, second) = values.split_at_mut(head / 2 * width);
        let pairs = copy.chunks_exact(2 * width).zip(first.chunks_exact_mut(width).zip(second.chunks_exact_mut(width)));
        for (pair, (first, second)) in pairs {
            first.copy_from_slice(&pair[..width]);
            second.copy_from_slice(&pair[width..]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_each_head_are_separated() {
        // Two heads of four rows of two elements; each row's number is its position in the right order.
        let mut values: Vec<u32> = [0, 2, 1, 3, 4, 6, 5, 7].iter().flat_map(|row| [10 * row, 10 * row + 1]).collect();
        separate_halves(&mut values, 4, 2);
        assert_eq!(values, (0..8).flat_map(|row| [10 * row, 10 * row + 1]).collect::<Vec<u32>>());
    }
}
