//! Python's `random.Random(seed).sample`, so that few-shot examples are those of lm-evaluation-harness.

use rand_mt::Mt;

/// The generator of Python's module `random`, seeded with a whole number.
#[derive(Clone, Debug)]
pub(crate) struct PythonRandom(Mt);

impl PythonRandom {
    pub(crate) fn new(seed: u64) -> Self {
        // Python keys the generator with the 32-bit words of the seed, without leading zeros.
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        Self(if high == 0 { Mt::new_with_key([low]) } else { Mt::new_with_key([low, high]) })
    }

    /// A number below `n`, which is at least 1.
    fn below(&mut self, n: u32) -> u32 {
        let bits = 32 - n.leading_zeros();
        loop {
            let drawn = self.0.next_u32() >> (32 - bits);
            if drawn < n {
                return drawn;
            }
        }
    }

    /// `count` different indices below `population`, in the order in which Python draws them; all of them in random order if
    /// there are no more.
    pub(crate) fn sample(&mut self, population: usize, count: usize) -> Vec<usize> {
        let (n, k) = (u32::try_from(population).unwrap_or(u32::MAX), count.min(population));
        // Python's choice between a list of the rest and a set of those drawn, which decides what is drawn.
        let mut set_size = 21.0f64;
        if k > 5 {
            set_size += 4f64.powf(((3 * k) as f64).log(4.0).ceil());
        }
        let mut drawn = Vec::with_capacity(k);
        if f64::from(n) <= set_size {
            let mut rest: Vec<usize> = (0..population).collect();
            for taken in 0..k {
                let at = self.below(n - taken as u32) as usize;
                drawn.push(rest.swap_remove(at));
            }
        } else {
            while drawn.len() < k {
                let at = self.below(n) as usize;
                if !drawn.contains(&at) {
                    drawn.push(at);
                }
            }
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Python: `r = random.Random(1234); [r.sample(range(n), k) for n, k in …]`.
    #[test]
    fn samples_are_those_of_python() {
        let mut random = PythonRandom::new(1234);
        let found: Vec<Vec<usize>> =
            [(10, 3), (100, 5), (30, 8), (1000, 6)].into_iter().map(|(n, k)| random.sample(n, k)).collect();
        assert_eq!(found, PYTHON);
        let mut large = PythonRandom::new(1 << 40);
        assert_eq!(large.sample(1000, 4), PYTHON_LARGE);
    }

    const PYTHON: [&[usize]; 4] =
        [&[7, 1, 0], &[11, 74, 4, 85, 88], &[2, 3, 24, 11, 7, 0, 27, 23], &[354, 663, 638, 495, 630, 474]];
    const PYTHON_LARGE: [usize; 4] = [106, 361, 686, 67];
}
