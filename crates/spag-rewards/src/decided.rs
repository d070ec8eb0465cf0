//! Which episodes of a file have a winner.

/// One bit an episode, in order: all that the first reading of a file leaves behind for the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    bits: Vec<u64>,
    episodes: usize,
}

impl Decided {
    /// Appends whether the next episode has a winner.
    pub(crate) fn push(&mut self, decided: impl Into<u64>) {
        let (word, bit) = (self.episodes / 64, self.episodes % 64);
        self.bits.resize(word + 1, 0);
        if let Some(bits) = self.bits.get_mut(word) {
            *bits |= decided.into() << bit;
        }
        self.episodes += 1;
    }

    /// Appends those of another stretch of episodes.
    pub(crate) fn append(&mut self, next: &Self) {
        (0..next.episodes).for_each(|index| self.push(next.at(index)));
    }

    /// Whether the episode has a winner; one that there is not has none.
    pub(crate) fn at(&self, index: usize) -> bool {
        self.bits.get(index / 64).is_some_and(|bits| bits >> (index % 64) & 1 == 1)
    }

    /// The number of episodes.
    pub(crate) fn episodes(&self) -> usize {
        self.episodes
    }
}

#[cfg(test)]
mod tests {
    use super::Decided;

    #[test]
    fn stretches_follow_one_another() {
        let (mut all, mut stretch) = (Decided::default(), Decided::default());
        (0..70).for_each(|index| stretch.push(index % 3 == 0));
        all.append(&stretch);
        all.append(&stretch);
        assert_eq!(all.episodes(), 140);
        assert!((0..140).all(|index| all.at(index) == (index % 70 % 3 == 0)));
        assert!(!all.at(140) && !all.at(1000));
    }
}
