//! Happens-before order of work: one vector clock per stream.

use std::ops::Range;

use crate::fault::fault;

/// For each stream, by number, the last work known to be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Vec<u64>);

impl Clock {
    pub(crate) fn of(&self, stream: usize) -> u64 {
        self.0.get(stream).copied().unwrap_or(0)
    }

    /// Advances the clock for the stream's next work and returns its number.
    pub(crate) fn advance(&mut self, stream: usize) -> u64 {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] += 1;
        self.0[stream]
    }

    /// Adds everything known by another clock.
    pub(crate) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }
}

/// How work accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// Earlier work that used part of an allocation.
#[derive(Clone, Debug)]
struct Past {
    bytes: Range<usize>,
    how: Use,
    stream: usize,
    /// Its number in the clock of its stream.
    number: u64,
    what: String,
}

/// Uses of an allocation that later work must be ordered after.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Vec<Past>);

/// Work about to use an allocation.
pub(crate) struct Now<'a> {
    pub(crate) bytes: Range<usize>,
    pub(crate) how: Use,
    pub(crate) stream: usize,
    /// The clock of its stream, advanced for this work.
    pub(crate) clock: &'a Clock,
    pub(crate) what: &'a str,
}

impl History {
    /// Records this use; ends the process unless it is ordered after all earlier conflicting uses.
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
        // Ordering after this write implies ordering after everything before it, and a stream's uses are in order.
        self.0.retain(|past| {
            !inside(past) || (now.how == Use::Read && (past.how == Use::Write || past.stream != now.stream))
        });
        let (stream, number) = (now.stream, now.clock.of(now.stream));
        self.0.push(Past { bytes: now.bytes.clone(), how: now.how, stream, number, what: now.what.to_owned() });
    }
}
