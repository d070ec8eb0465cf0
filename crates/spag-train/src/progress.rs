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

/// Tells the progress of a part within another as the other's note: the outer one goes on being shown.
pub(crate) struct Within<'a> {
    outer: &'a mut dyn Progress,
    /// Where the outer part is.
    at: u64,
    what: String,
    total: u64,
}

impl<'a> Within<'a> {
    pub(crate) fn new(outer: &'a mut dyn Progress, at: u64) -> Self {
        Self { outer, at, what: String::new(), total: 0 }
    }
}

impl Progress for Within<'_> {
    fn begin(&mut self, what: &str, total: u64) {
        (self.what, self.total) = (what.to_owned(), total);
        self.advance(0, "");
    }

    fn advance(&mut self, done: u64, _: &str) {
        self.outer.advance(self.at, &format!("{} {done}/{}", self.what, self.total));
    }

    fn end(&mut self) {}
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64, _: &str) {}
    fn end(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Progress for Vec<String> {
        fn begin(&mut self, what: &str, total: u64) {
            self.push(format!("{what} of {total}"));
        }
        fn advance(&mut self, done: u64, note: &str) {
            self.push(format!("{done} {note}"));
        }
        fn end(&mut self) {
            self.push("end".into());
        }
    }

    #[test]
    fn a_part_within_another_does_not_end_it() {
        let mut told: Vec<String> = Vec::new();
        told.begin("training", 10);
        let mut within = Within::new(&mut told, 4);
        within.begin("evaluation", 3);
        within.advance(3, "");
        within.end();
        told.resume("training", 10, 4);
        assert_eq!(told, ["training of 10", "4 evaluation 0/3", "4 evaluation 3/3", "training of 10", "4 "]);
    }
}
