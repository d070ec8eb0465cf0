//! How a run tells where it is, without knowing how that is shown.

use spag_io::{Progress, Silent};

/// Told about a run: bars through [`Progress`], and a line now and then that stays on the screen.
pub trait RunProgress: Progress {
    /// Something worth a line: a stage begins, or was done before.
    fn say(&mut self, line: &str);
}

impl RunProgress for Silent {
    fn say(&mut self, _: &str) {}
}

/// Puts the stage's name before what a part of it says it does.
pub(crate) struct Staged<'a> {
    pub(crate) stage: &'a str,
    pub(crate) inner: &'a mut dyn RunProgress,
}

impl Progress for Staged<'_> {
    fn begin(&mut self, what: &str, total: u64) {
        self.inner.begin(&format!("{}: {what}", self.stage), total);
    }

    fn resume(&mut self, what: &str, total: u64, done: u64) {
        self.inner.resume(&format!("{}: {what}", self.stage), total, done);
    }

    fn advance(&mut self, done: u64, note: &str) {
        self.inner.advance(done, note);
    }

    fn end(&mut self) {
        self.inner.end();
    }
}
