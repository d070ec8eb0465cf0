//! Python's module `random`, so that a seed deals the cards that TextArena deals.

use rand_mt::Mt;

/// The generator of Python's `random.Random`, seeded with a whole number. Its 2.5 KiB are made by the first draw, since many games
/// draw nothing.
#[derive(Clone, Debug)]
pub(crate) struct PythonRandom {
    seed: u64,
    generator: Option<Box<Mt>>,
}

impl PythonRandom {
    /// `random.seed(seed)`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, generator: None }
    }

    fn next_u32(&mut self) -> u32 {
        // Python keys the generator with the 32-bit limbs of the seed, without leading zeros.
        let (low, high) = (self.seed as u32, (self.seed >> 32) as u32);
        let make = || if high == 0 { Mt::new_with_key([low]) } else { Mt::new_with_key([low, high]) };
        self.generator.get_or_insert_with(|| Box::new(make())).next_u32()
    }

    /// A number below `n`, which is at least 1.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        // Python takes the bits of n, not of n − 1, so that even `below(1)` draws.
        let bits = 32 - n.max(1).leading_zeros();
        loop {
            let drawn = self.next_u32() >> (32 - bits);
            if drawn < n.max(1) {
                return drawn;
            }
        }
    }

    /// `random.choice(items)`. `None` without items.
    pub(crate) fn choice<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let len = u32::try_from(items.len()).ok().filter(|len| *len > 0)?;
        items.get(self.below(len) as usize)
    }

    /// `random.randint(low, high)`, both included.
    pub(crate) fn in_range(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// `random.shuffle(items)`.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PythonRandom;

    /// From Python: `r = random.Random(n); l = [0..9]; r.shuffle(l); [r.randint(5, 25) for _ in range(6)]; r._randbelow(1); r.choice("abc")`.
    #[test]
    fn draws_are_those_of_python() {
        for (seed, shuffled, drawn, chosen) in [
            (0, [7, 8, 1, 5, 3, 4, 2, 0, 9, 6], [16, 23, 11, 21, 9, 14], 'a'),
            (7, [8, 3, 1, 4, 7, 0, 9, 6, 2, 5], [21, 11, 6, 7, 18, 18], 'a'),
            (1 << 32, [8, 9, 3, 2, 4, 7, 0, 6, 5, 1], [5, 9, 7, 18, 21, 15], 'c'),
            (u64::MAX, [2, 6, 7, 9, 8, 1, 4, 5, 3, 0], [11, 22, 20, 7, 15, 20], 'b'),
        ] {
            let mut random = PythonRandom::new(seed);
            let mut items: Vec<u32> = (0..10).collect();
            random.shuffle(&mut items);
            assert_eq!(items, shuffled);
            assert_eq!((0..6).map(|_| random.in_range(5, 25)).collect::<Vec<_>>(), drawn);
            assert_eq!((random.below(1), random.choice(&['a', 'b', 'c'])), (0, Some(&chosen)));
            assert_eq!(random.choice::<char>(&[]), None);
        }
    }
}
