//! Progress on standard error: a bar with rate and remaining time on a terminal, lines in a log.

use std::{
    fmt,
    io::{IsTerminal, stderr},
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use spag_io::{Progress, quote};

use crate::exit;

/// The interval between the lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEvery {
    /// At least this many seconds.
    Seconds(u64),
    /// This many units of work.
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

/// Time between two redraws of a bar.
const TICK: Duration = Duration::from_millis(250);

/// Shows progress on standard error.
pub struct TerminalProgress {
    style: Style,
    every: LineEvery,
    stage: Option<Stage>,
}

#[derive(Clone, Copy)]
enum Style {
    Bar,
    Log,
}

/// The stage in progress.
enum Stage {
    Bar(ProgressBar),
    Log(LogLines),
}

/// A bar on a terminal; in a log, a line every ten seconds.
impl Default for TerminalProgress {
    fn default() -> Self {
        Self::new(LineEvery::Seconds(10))
    }
}

impl TerminalProgress {
    /// A bar on a terminal; in a log, lines at the given interval.
    pub fn new(every: LineEvery) -> Self {
        Self { style: if stderr().is_terminal() { Style::Bar } else { Style::Log }, every, stage: None }
    }

    /// Lines even on a terminal: for one of several ranks, whose bars would overwrite each other.
    pub fn log(every: LineEvery) -> Self {
        Self { style: Style::Log, every, stage: None }
    }
}

impl Progress for TerminalProgress {
    fn begin(&mut self, what: &str, total: u64) {
        self.resume(what, total, 0);
    }

    fn resume(&mut self, what: &str, total: u64, done: u64) {
        self.end();
        self.stage = Some(match self.style {
            Style::Bar => Stage::Bar(bar(what, total, done)),
            Style::Log => Stage::Log(LogLines::begin(what, total, done, self.every)),
        });
    }

    fn advance(&mut self, done: u64, note: &str) {
        match &mut self.stage {
            Some(Stage::Bar(bar)) => {
                bar.set_position(done);
                bar.set_message(quote(note));
            }
            Some(Stage::Log(lines)) => lines.advance(done, note),
            None => {}
        }
    }

    fn end(&mut self) {
        match self.stage.take() {
            Some(Stage::Bar(bar)) => bar.abandon(),
            Some(Stage::Log(lines)) => exit::note(lines.line()),
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

/// Leaves the bar of an unfinished stage on the screen.
impl Drop for TerminalProgress {
    fn drop(&mut self) {
        if let Some(Stage::Bar(bar)) = &self.stage {
            bar.abandon();
        }
    }
}

fn bar(what: &str, total: u64, done: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_position(done);
    let template = "{prefix} {wide_bar:.cyan/dim} {pos}/{len}  {rate}  {elapsed} < {eta}  {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = write!(out, "{:.1}/s", state.per_sec());
    };
    bar.set_style(style.with_key("rate", rate).progress_chars("━╸─"));
    // A bar is one line, whatever the names in it hold.
    bar.set_prefix(quote(what));
    tick(&bar);
    // Units done earlier do not count towards the rate.
    bar.reset_eta();
    bar
}

/// Redraws the bar while it is shown, so that its times go on. Without a thread to be had it is redrawn by its units only.
///
/// indicatif's own ticker panics if its thread cannot be started.
fn tick(bar: &ProgressBar) {
    let shown = bar.downgrade();
    let redraw = move || {
        while let Some(bar) = shown.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            thread::sleep(TICK);
        }
    };
    // The thread ends with the bar.
    let _ = thread::Builder::new().name("progress".into()).spawn(redraw);
}

/// The lines of a stage in a log: one at the start, some in between, one at the end.
struct LogLines {
    what: String,
    total: u64,
    every: LineEvery,
    started: Instant,
    /// Time of the last line and units done by then.
    last_line: (Instant, u64),
    /// Units done before the stage was resumed.
    before: u64,
    done: u64,
    note: String,
}

impl LogLines {
    fn begin(what: &str, total: u64, done: u64, every: LineEvery) -> Self {
        let started = Instant::now();
        exit::note(format_args!("{}: {done}/{total}", quote(what)));
        let (what, last_line) = (what.to_owned(), (started, done));
        Self { what, total, every, started, last_line, before: done, done, note: String::new() }
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

    fn line(&self) -> String {
        let elapsed = self.started.elapsed().as_secs_f64();
        let rate = self.done.saturating_sub(self.before) as f64 / elapsed.max(1e-9);
        let left = self.total.saturating_sub(self.done) as f64 / rate;
        let eta =
            if self.done < self.total && left.is_finite() { format!(", {} left", clock(left)) } else { String::new() };
        let note = if self.note.is_empty() { String::new() } else { format!("  {}", quote(&self.note)) };
        format!(
            "{}: {}/{}  {rate:.1}/s, {} passed{eta}{note}",
            quote(&self.what),
            self.done,
            self.total,
            clock(elapsed)
        )
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
    fn durations_are_printed_as_clock_time() {
        assert_eq!([clock(0.4), clock(75.0), clock(3661.0)], ["0:00", "1:15", "1:01:01"]);
    }

    #[test]
    fn lines_are_due_by_time_or_by_units() {
        assert!(LineEvery::Seconds(10).is_due(Duration::from_secs(10), 0));
        assert!(!LineEvery::Seconds(10).is_due(Duration::from_secs(9), 1000));
        assert!(LineEvery::Units(5).is_due(Duration::ZERO, 5) && !LineEvery::Units(5).is_due(Duration::MAX, 4));
    }

    #[test]
    fn line_states_progress_rate_and_remaining_time() {
        let started = Instant::now() - Duration::from_secs(10);
        let (every, last_line) = (LineEvery::Seconds(10), (started, 0));
        let (what, note) = ("train".into(), "loss 1.5".into());
        let lines = LogLines { what, total: 30, every, started, last_line, before: 0, done: 10, note };
        assert_eq!(lines.line(), "train: 10/30  1.0/s, 0:10 passed, 0:20 left  loss 1.5");
        let resumed = LogLines { before: 5, note: String::new(), ..lines };
        assert_eq!(resumed.line(), "train: 10/30  0.5/s, 0:10 passed, 0:40 left");
        let finished = LogLines { before: 0, done: 30, ..resumed };
        assert_eq!(finished.line(), "train: 30/30  3.0/s, 0:10 passed");
        let hostile = LogLines { what: "a\nb".into(), note: "\u{1b}]0;title\u{7}".into(), ..finished };
        assert_eq!(hostile.line(), "a\\nb: 30/30  3.0/s, 0:10 passed  \\u{1b}]0;title\\u{7}");
    }

    #[test]
    fn bar_escapes_names_and_notes_and_ends_its_thread() {
        let hidden = bar("a\nb", 3, 0);
        assert_eq!(hidden.prefix(), "a\\nb");
        let mut progress = TerminalProgress { style: Style::Bar, every: LineEvery::Seconds(10), stage: None };
        progress.stage = Some(Stage::Bar(hidden.clone()));
        progress.advance(1, "\u{1b}[2J");
        assert_eq!(hidden.message(), "\\u{1b}[2J");
        progress.end();
        assert!(hidden.is_finished());
    }
}
