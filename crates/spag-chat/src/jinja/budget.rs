//! Resource limits of a template: steps, memory, depth and stack.
//!
//! Every function that makes a value checks the budget first, and every loop over a value counts its steps, so no operation
//! can exceed the limits.

use std::cell::Cell;

use super::error::{Result, fail};

/// Step limit of a rendering. A step takes about a nanosecond in a release build.
const STEPS: usize = 1 << 30;
/// Steps of evaluating one expression or statement.
pub(crate) const NODE: usize = 40;
/// Byte limit of all values and of the text. Freed memory still counts.
const BYTES: usize = 96 << 20;
/// Byte limit of one text.
const TEXT: usize = 16 << 20;
/// Nesting limit of lists and objects.
pub(crate) const LEVELS: usize = 200;
/// Nesting limit of expressions, statements, macros and recursive loops.
const DEPTH: usize = 600;
/// Stack limit of a rendering. All threads of the programs have more.
const STACK: usize = 1 << 20;
/// Bytes of a value, excluding its text.
pub(crate) const VALUE: usize = 48;

/// Resources used by a rendering.
pub(crate) struct Budget {
    steps: Cell<usize>,
    bytes: Cell<usize>,
    depth: Depth,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { steps: Cell::new(0), bytes: Cell::new(0), depth: Depth::new(DEPTH) }
    }

    /// Counts steps.
    pub(crate) fn work(&self, steps: usize) -> Result<()> {
        self.steps.set(self.steps.get().saturating_add(steps));
        if self.steps.get() > STEPS {
            return fail!("the template takes more than {STEPS} steps");
        }
        Ok(())
    }

    /// Counts a text before it is made.
    pub(crate) fn text(&self, len: usize) -> Result<()> {
        if len > TEXT {
            return fail!("the template makes a text of more than {} MiB", TEXT >> 20);
        }
        self.bytes(len)
    }

    /// Counts the values of a list before it is made.
    pub(crate) fn values(&self, count: usize) -> Result<()> {
        self.bytes(count.saturating_mul(VALUE))
    }

    fn bytes(&self, bytes: usize) -> Result<()> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() > BYTES {
            return fail!("the template makes values of more than {} MiB in all", BYTES >> 20);
        }
        self.work(bytes)
    }

    /// Enters a level, which ends with the returned guard.
    pub(crate) fn enter(&self) -> Result<Level<'_>> {
        self.depth.enter()
    }
}

/// A text that grows within the budget.
pub(crate) struct Out<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) text: String,
}

impl<'a> Out<'a> {
    pub(crate) fn new(budget: &'a Budget) -> Self {
        Self { budget, text: String::new() }
    }

    /// Appends a text.
    pub(crate) fn push(&mut self, text: &str) -> Result<()> {
        self.reserve(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Appends a character `count` times.
    pub(crate) fn fill(&mut self, c: char, count: usize) -> Result<()> {
        self.reserve(count.saturating_mul(c.len_utf8()))?;
        self.text.extend(std::iter::repeat_n(c, count));
        Ok(())
    }

    /// Counts the bytes of a growing text in advance.
    fn reserve(&self, more: usize) -> Result<()> {
        let len = self.text.len().saturating_add(more);
        if len > self.text.capacity() { self.budget.text(len) } else { Ok(()) }
    }
}

/// Depth of nested calls, and the stack that they use.
pub(crate) struct Depth {
    most: usize,
    now: Cell<usize>,
    /// The address of the stack where the first level begins.
    begin: usize,
}

impl Depth {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, now: Cell::new(0), begin: here() }
    }

    /// Enters a level, which ends with the returned guard. The stack is measured too, since unoptimized builds use more
    /// of it per level.
    pub(crate) fn enter(&self) -> Result<Level<'_>> {
        if self.now.get() >= self.most || self.begin.abs_diff(here()) > STACK {
            return fail!("the template is nested too deeply");
        }
        self.now.set(self.now.get() + 1);
        Ok(Level(&self.now))
    }
}

/// An address on the stack.
#[inline(never)]
fn here() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&local)).addr()
}

/// A level that has been entered.
pub(crate) struct Level<'a>(&'a Cell<usize>);

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
