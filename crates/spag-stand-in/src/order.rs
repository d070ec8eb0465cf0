//! Which work is certain to come before which: a clock of each stream, as vector clocks of distributed systems.

use std::ops::Range;

use crate::fault::fault;

/// For each stream, by number, the last work that is certain to be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Vec<u64>);

impl Clock {
    pub(crate) fn of(&self, stream: usize) -> u64 {
        self.0.get(stream).copied().unwrap_or(0)
    }

    /// The number of the stream's next work.
    pub(crate) fn advance(&mut self, stream: usize) -> u64 {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] += 1;
        self.0[stream]
    }

    /// Also everything that is certain by another clock.
    pub(crate) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }
}

/// How work uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// Work that used a part of an allocation.
#[derive(Clone, Debug)]
struct Past {
    bytes: Range<usize>,
    how: Use,
    stream: usize,
    /// By the clock of its stream.
    number: u64,
    what: String,
}

/// Work that used an allocation, as far as later work must come after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Vec<Past>);

/// Work that is about to use an allocation.
pub(crate) struct Now<'a> {
    pub(crate) bytes: Range<usize>,
    pub(crate) how: Use,
    pub(crate) stream: usize,
    /// The clock of its stream, advanced for this work.
    pub(crate) clock: &'a Clock,
    pub(crate) what: &'a str,
}

impl History {
    /// Ends the process unless this use comes after all earlier ones that it conflicts with, and remembers it.
    pub(crate) fn enter(&mut self, now: &Now<'_>) {
        let overlaps = |past: &Past| past.bytes.start < now.bytes.end && now.bytes.start < past.bytes.end;
        for past in self.0.iter().filter(|past| overlaps(past)) {
            let conflicts = now.how == Use::Write || past.how == Use::Write;
            if conflicts && now.clock.of(past.stream) < past.number {
                fault!(
                    "{} on stream {} ({:?} of bytes {:?}) is not ordered after {} on stream {} ({:?} of bytes {:?})",
                    now.what,
                    now.stream,
                    now.how,
                    now.bytes,
                    past.what,
                    past.stream,
                    past.how,
                    past.bytes
                );
            }
        }
        let inside = |past: &Past| now.bytes.start <= past.bytes.start && past.bytes.end <= now.bytes.end;
        // What comes after this write comes after all that it came after, and this stream's uses are in order.
        self.0.retain(|past| {
            !inside(past) || (now.how == Use::Read && (past.how == Use::Write || past.stream != now.stream))
        });
        let (stream, number) = (now.stream, now.clock.of(now.stream));
        self.0.push(Past { bytes: now.bytes.clone(), how: now.how, stream, number, what: now.what.to_owned() });
    }
}
