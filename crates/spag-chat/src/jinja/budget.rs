//! What a template may take: steps, memory, depth and stack.
//!
//! Every value is made by a function that asks here first, and every loop over a value counts its steps. So no template can
//! take more, whichever operation it uses.

use std::cell::Cell;

use super::error::{Result, fail};

/// Steps of a rendering. A step is about a nanosecond in a release build.
const STEPS: usize = 1 << 30;
/// Steps of evaluating one expression or statement.
pub(crate) const NODE: usize = 40;
/// Bytes of all values and of the text. What is freed still counts.
const BYTES: usize = 96 << 20;
/// Bytes of one text.
const TEXT: usize = 16 << 20;
/// Levels of lists and objects within each other.
pub(crate) const LEVELS: usize = 200;
/// Levels of expressions, statements, macros and recursive loops within each other.
const DEPTH: usize = 600;
/// Stack of a rendering. All threads of the programs have more.
const STACK: usize = 1 << 20;
/// Bytes of a value beside its text.
pub(crate) const VALUE: usize = 48;

/// What a rendering has used.
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

    /// Counts a text that is about to be made.
    pub(crate) fn text(&self, len: usize) -> Result<()> {
        if len > TEXT {
            return fail!("the template makes a text of more than {} MiB", TEXT >> 20);
        }
        self.bytes(len)
    }

    /// Counts values of a list that is about to be made.
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

    /// Appends a character as often as `count` says.
    pub(crate) fn fill(&mut self, c: char, count: usize) -> Result<()> {
        self.reserve(count.saturating_mul(c.len_utf8()))?;
        self.text.extend(std::iter::repeat_n(c, count));
        Ok(())
    }

    /// Counts what a growing text takes at once.
    fn reserve(&self, more: usize) -> Result<()> {
        let len = self.text.len().saturating_add(more);
        if len > self.text.capacity() { self.budget.text(len) } else { Ok(()) }
    }
}

/// Levels that call each other, and the stack that they use.
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

    /// Enters a level, which ends with the returned guard. Builds without optimization use more stack for a level, so the
    /// stack is measured beside.
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
