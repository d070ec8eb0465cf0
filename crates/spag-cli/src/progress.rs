//! How far a long piece of work is: a bar with rate and ETA on a terminal, plain lines in a log.

use std::{
    fmt,
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use spag_io::Progress;

use crate::exit;

/// When a log gets its next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEvery {
    /// So long after the one before, at least.
    Seconds(u64),
    /// After so many further units of work.
    Units(u64),
}

impl LineEvery {
    fn is_due(self, since: Duration, units: u64) -> bool {
        match self {
            Self::Seconds(seconds) => since.as_secs() >= seconds,
            Self::Units(every) => units >= every,
        }
    }
}

/// Progress for whoever reads standard error.
pub struct TerminalProgress {
    /// Whether stderr is a terminal; asked once.
    on_terminal: bool,
    every: LineEvery,
    stage: Option<Stage>,
}

/// One stage of the work in progress.
enum Stage {
    Bar(ProgressBar),
    Log(LogLines),
}

impl TerminalProgress {
    /// Lines of a log every ten seconds.
    pub fn new() -> Self {
        Self::with_lines(LineEvery::Seconds(10))
    }

    /// Lines of a log as asked; on a terminal there is a bar all the same.
    pub fn with_lines(every: LineEvery) -> Self {
        Self { on_terminal: stderr().is_terminal(), every, stage: None }
    }

    /// The same lines on a terminal too: for one of several processes, whose bars would overwrite each other.
    pub fn lines_everywhere(every: LineEvery) -> Self {
        Self { on_terminal: false, every, stage: None }
    }
}

impl Progress for TerminalProgress {
    fn begin(&mut self, what: &str, total: u64) {
        self.resume(what, total, 0);
    }

    fn resume(&mut self, what: &str, total: u64, done: u64) {
        self.end();
        self.stage = Some(if self.on_terminal {
            Stage::Bar(bar(what, total).with_position(done))
        } else {
            Stage::Log(LogLines::begin(what, total, done, self.every))
        });
        if let Some(Stage::Bar(bar)) = &self.stage {
            // What was done before says nothing about how long the rest takes.
            bar.reset_eta();
        }
    }

    fn advance(&mut self, done: u64, note: &str) {
        match &mut self.stage {
            Some(Stage::Bar(bar)) => {
                bar.set_position(done);
                bar.set_message(note.to_owned());
            }
            Some(Stage::Log(lines)) => lines.advance(done, note),
            None => {}
        }
    }

    fn end(&mut self) {
        match self.stage.take() {
            Some(Stage::Bar(bar)) => bar.abandon(),
            Some(Stage::Log(lines)) => lines.end(),
            None => {}
        }
    }

    fn message(&mut self, line: &str) {
        match &self.stage {
            // Clears the bar for the line and draws it again.
            Some(Stage::Bar(bar)) => bar.suspend(|| exit::note(line)),
            _ => exit::note(line),
        }
    }
}

/// A stage that is given up (an error) leaves its bar as it stood.
impl Drop for TerminalProgress {
    fn drop(&mut self) {
        if let Some(Stage::Bar(bar)) = &self.stage {
            bar.abandon();
        }
    }
}

fn bar(what: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = "{prefix} {wide_bar:.cyan/dim} {pos}/{len}  {rate}  {elapsed} < {eta}  {msg}";
    // A template that indicatif cannot read would cost the looks only.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A rate that cannot be drawn is left out.
        let _ = write!(out, "{:.1}/s", state.per_sec());
    };
    bar.set_style(style.with_key("rate", rate).progress_chars("━╸─"));
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// A line at the start, some on the way, and one at the end.
struct LogLines {
    what: String,
    total: u64,
    every: LineEvery,
    started: Instant,
    /// When the last line was written, and how much was done then.
    last_line: (Instant, u64),
    /// Units done before the stage began here.
    before: u64,
    done: u64,
    note: String,
}

impl LogLines {
    fn begin(what: &str, total: u64, done: u64, every: LineEvery) -> Self {
        let now = Instant::now();
        exit::note(format_args!("{what}: {done}/{total}"));
        let last_line = (now, done);
        Self { what: what.into(), total, every, started: now, last_line, before: done, done, note: String::new() }
    }

    fn advance(&mut self, done: u64, note: &str) {
        self.done = done;
        note.clone_into(&mut self.note);
        let (at, then) = self.last_line;
        if self.every.is_due(at.elapsed(), done.saturating_sub(then)) && done < self.total {
            self.last_line = (Instant::now(), done);
            exit::note(self.line());
        }
    }

    fn end(&self) {
        exit::note(self.line());
    }

    fn line(&self) -> String {
        let elapsed = self.started.elapsed().as_secs_f64();
        let rate = self.done.saturating_sub(self.before) as f64 / elapsed.max(1e-9);
        let left = self.total.saturating_sub(self.done) as f64 / rate;
        let eta =
            if self.done < self.total && left.is_finite() { format!(", {} left", clock(left)) } else { String::new() };
        let note = if self.note.is_empty() { String::new() } else { format!("  {}", self.note) };
        format!("{}: {}/{}  {rate:.1}/s, {} passed{eta}{note}", self.what, self.done, self.total, clock(elapsed))
    }
}

/// Seconds as h:mm:ss or m:ss.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_on_a_clock() {
        assert_eq!([clock(0.4), clock(75.0), clock(3661.0)], ["0:00", "1:15", "1:01:01"]);
    }

    #[test]
    fn lines_are_due_by_time_or_by_work() {
        assert!(LineEvery::Seconds(10).is_due(Duration::from_secs(10), 0));
        assert!(!LineEvery::Seconds(10).is_due(Duration::from_secs(9), 1000));
        assert!(LineEvery::Units(5).is_due(Duration::ZERO, 5) && !LineEvery::Units(5).is_due(Duration::MAX, 4));
    }

    #[test]
    fn a_line_tells_how_far_and_how_long_yet() {
        let started = Instant::now() - Duration::from_secs(10);
        let (every, last_line) = (LineEvery::Seconds(10), (started, 0));
        let (what, note) = ("train".into(), "loss 1.5".into());
        let lines = LogLines { what, total: 30, every, started, last_line, before: 0, done: 10, note };
        assert_eq!(lines.line(), "train: 10/30  1.0/s, 0:10 passed, 0:20 left  loss 1.5");
        let resumed = LogLines { before: 5, note: String::new(), ..lines };
        assert_eq!(resumed.line(), "train: 10/30  0.5/s, 0:10 passed, 0:40 left");
        let finished = LogLines { before: 0, done: 30, ..resumed };
        assert_eq!(finished.line(), "train: 30/30  3.0/s, 0:10 passed");
    }
}
