//! Progress of long jobs, independent of how it is displayed.

/// Receives the progress of a job; shows a bar, writes lines, or does nothing.
pub trait Progress {
    /// A part of the job starts: its name and its number of units.
    fn begin(&mut self, what: &str, total: u64);
    /// A part resumes with `done` units completed earlier; they do not count towards the rate.
    fn resume(&mut self, what: &str, total: u64, done: u64) {
        self.begin(what, total);
        if done > 0 {
            self.advance(done, "");
        }
    }
    /// `done` units of the part are complete so far. `note` is short: a loss, a rate.
    fn advance(&mut self, done: u64, note: &str);
    /// The part is complete.
    fn end(&mut self);
    /// A line that stays on the screen, such as the start of a stage.
    fn message(&mut self, _line: &str) {}
}

/// Seconds in human-readable form.
///
/// ```
/// let said = [61.0, 240.0, 9000.0].map(spag_io::duration);
/// assert_eq!(said, ["61 seconds", "4 minutes", "2.5 hours"]);
/// ```
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} seconds"),
        seconds if seconds < 90.0 * 60.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds => format!("{:.1} hours", seconds / 3600.0),
    }
}

/// Shows the progress of a nested part as the note of the outer part, which stays on display.
pub struct Nested<'a> {
    outer: &'a mut dyn Progress,
    /// Units of the outer part that are complete.
    outer_done: u64,
    what: String,
    total: u64,
}

impl<'a> Nested<'a> {
    /// A part within `outer`, which has completed `outer_done` units.
    pub fn new(outer: &'a mut dyn Progress, outer_done: u64) -> Self {
        Self { outer, outer_done, what: String::new(), total: 0 }
    }
}

impl Progress for Nested<'_> {
    fn begin(&mut self, what: &str, total: u64) {
        (self.what, self.total) = (what.to_owned(), total);
        self.advance(0, "");
    }

    fn advance(&mut self, done: u64, _: &str) {
        self.outer.advance(self.outer_done, &format!("{} {done}/{}", self.what, self.total));
    }

    fn end(&mut self) {}

    fn message(&mut self, line: &str) {
        self.outer.message(line);
    }
}

/// Ignores all progress.
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
    fn nested_part_does_not_end_the_outer_part() {
        let mut calls: Vec<String> = Vec::new();
        calls.begin("training", 10);
        let mut nested = Nested::new(&mut calls, 4);
        nested.begin("evaluation", 3);
        nested.advance(3, "");
        nested.end();
        calls.resume("training", 10, 4);
        assert_eq!(calls, ["training of 10", "4 evaluation 0/3", "4 evaluation 3/3", "training of 10", "4 "]);
    }
}
