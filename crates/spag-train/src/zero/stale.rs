//! Layers whose gradients are those of the step before, until this step's first are written over them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether each layer's gradients are of the step before.
pub(super) struct Stale(Vec<AtomicBool>);

impl Stale {
    /// None of `layers` layers is.
    pub(super) fn none(layers: usize) -> Self {
        Self((0..layers).map(|_| AtomicBool::new(false)).collect())
    }

    /// A step begins.
    pub(super) fn mark_all(&self) {
        self.0.iter().for_each(|stale| stale.store(true, Ordering::Relaxed));
    }

    /// Whether a layer is, which it is not from now on.
    pub(super) fn take(&self, layer: usize) -> bool {
        self.0.get(layer).is_some_and(|stale| stale.swap(false, Ordering::Relaxed))
    }

    /// The layers that are, and are not from now on.
    pub(super) fn take_all(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|layer| self.take(*layer))
    }
}
