//! How a long job says where it is, without knowing how that is shown.

/// Told about the progress of a job; shows a bar, writes lines, or does nothing.
pub trait Progress {
    /// A part of the job begins: what it is and how many units it has.
    fn begin(&mut self, what: &str, total: u64);
    /// A part of which `done` units were done before goes on; they say nothing about the rate.
    fn resume(&mut self, what: &str, total: u64, done: u64) {
        self.begin(what, total);
        if done > 0 {
            self.advance(done, "");
        }
    }
    /// So many units of the part are done in all, with a short note (a loss, a rate).
    fn advance(&mut self, done: u64, note: &str);
    /// The part is done.
    fn end(&mut self);
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64, _: &str) {}
    fn end(&mut self) {}
}
