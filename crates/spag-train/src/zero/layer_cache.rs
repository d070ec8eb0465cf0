//! Which whole layers exist at a time while passes read sharded parameters.

/// Whole layers at a time: the one in use, the prefetched next one, and the previous one, because the backward pass
/// starts with the layers that the forward pass ended with.
const CAPACITY: usize = 3;

/// The least recently used whole layer is evicted first, except those in use.
///
/// The shards use it with buffers, the memory formulas with numbers of bytes.
pub(crate) struct LayerCache<T> {
    /// The least recently used first.
    entries: Vec<Entry<T>>,
}

struct Entry<T> {
    layer: usize,
    value: T,
    in_use: bool,
}

impl<T> Default for LayerCache<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> LayerCache<T> {
    /// Takes `layer` into use and prefetches `next`. `fetch(layer, evicted)` makes the value of a layer that is absent,
    /// given the value that it replaces.
    ///
    /// # Errors
    /// What `fetch` returns.
    pub(crate) fn acquire<E>(
        &mut self,
        layer: usize,
        next: Option<usize>,
        mut fetch: impl FnMut(usize, Option<T>) -> Result<T, E>,
    ) -> Result<&mut T, E> {
        let at = self.touch(layer, &mut fetch)?;
        // Before the prefetch, which must not evict it.
        self.entries[at].in_use = true;
        let prefetched = next.filter(|next| *next != layer).map(|next| self.touch(next, &mut fetch)).transpose()?;
        // The prefetched layer is the last one now, behind this one.
        let at = prefetched.map_or(at, |last| last - 1);
        Ok(&mut self.entries[at].value)
    }

    /// Ends the use of a layer, which may be evicted from now on, and returns its value.
    pub(crate) fn release(&mut self, layer: usize) -> Option<&mut T> {
        let entry = self.entries.iter_mut().find(|entry| entry.layer == layer)?;
        entry.in_use = false;
        Some(&mut entry.value)
    }

    /// The values of all layers that exist.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.value)
    }

    /// Removes all layers.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.entries.drain(..).map(|entry| entry.value)
    }

    /// Makes a layer the most recently used one, which is the last entry, and returns its index.
    fn touch<E>(&mut self, layer: usize, fetch: &mut impl FnMut(usize, Option<T>) -> Result<T, E>) -> Result<usize, E> {
        let entry = match self.entries.iter().position(|entry| entry.layer == layer) {
            Some(at) => self.entries.remove(at),
            None => Entry { layer, value: fetch(layer, self.evict())?, in_use: false },
        };
        self.entries.push(entry);
        Ok(self.entries.len() - 1)
    }

    fn evict(&mut self) -> Option<T> {
        let full = self.entries.len() >= CAPACITY;
        let oldest = self.entries.iter().position(|entry| full && !entry.in_use)?;
        Some(self.entries.remove(oldest).value)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn acquire(cache: &mut LayerCache<usize>, layer: usize, next: Option<usize>) -> Vec<usize> {
        cache.acquire(layer, next, |layer, _| Ok::<_, Infallible>(layer)).unwrap();
        cache.values().copied().collect()
    }

    #[test]
    fn least_recently_used_layer_is_evicted_unless_in_use() {
        let mut cache = LayerCache::default();
        assert_eq!(acquire(&mut cache, 0, Some(1)), [0, 1]);
        assert_eq!(acquire(&mut cache, 1, Some(2)), [0, 1, 2]);
        cache.release(0);
        assert_eq!(acquire(&mut cache, 2, Some(3)), [1, 2, 3]);
        assert_eq!(acquire(&mut cache, 3, Some(4)), [1, 2, 3, 4], "all are in use");
        cache.release(2);
        assert_eq!(acquire(&mut cache, 1, None), [2, 3, 4, 1]);
        assert_eq!(cache.drain().count(), 4);
    }
}
