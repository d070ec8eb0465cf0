//! Progress of a stage of a run.

use spag_io::Progress;

/// Prefixes the progress of a part with the name of its stage.
pub(crate) struct Staged<'a> {
    pub(crate) stage: &'a str,
    pub(crate) inner: &'a mut dyn Progress,
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

    fn message(&mut self, line: &str) {
        self.inner.message(line);
    }
}
