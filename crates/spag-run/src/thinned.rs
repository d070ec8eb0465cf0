//! A course of many points of which a bounded number is kept.

/// Points that are kept, at most twice as many. Of more, every second is kept, or every fourth and so on.
pub const KEPT: usize = 250;

/// Points in the order in which they came, thinned evenly, and the last one.
#[derive(Clone, Debug)]
pub struct Thinned<T> {
    points: Vec<T>,
    last: Option<T>,
    /// One of so many points is kept.
    every: usize,
    /// Points so far.
    seen: usize,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self { points: Vec::new(), last: None, every: 1, seen: 0 }
    }
}

impl<T: Clone + PartialEq> Thinned<T> {
    /// Adds the next point.
    pub fn add(&mut self, point: T) {
        if self.seen.is_multiple_of(self.every) {
            self.points.push(point.clone());
        }
        self.seen += 1;
        self.last = Some(point);
        if self.points.len() >= 2 * KEPT {
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
    }

    /// The points that are kept, and the last one.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let last = self.last.as_ref().filter(|last| self.points.last() != Some(last));
        self.points.iter().chain(last)
    }
}
