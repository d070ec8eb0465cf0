//! The parts of a step's time, for people.

use std::fmt::Write as _;

use super::time::StepTime;
use super::workload::Workload;

impl StepTime {
    /// The seconds of a step: its parts, which follow each other, and what runs at the same time within each. `every` says when
    /// checkpoints are written; it is empty if none are.
    pub(super) fn text(&self, work: &Workload, every: &str) -> String {
        let mut out = format!(
            "a step takes at least {:.2} s (at most {:.0} tokens/s in all): {:.0} tokens in {} of each rank\n",
            self.step,
            self.tokens_per_second,
            work.tokens,
            passes(work.passes),
        );
        let products = match work.rank_load {
            1.0 => "products".to_owned(),
            load => format!("products of the busiest rank, {load:.3} times the mean"),
        };
        let copied = [
            ("optimizer in the host's memory", self.host_update),
            ("gradients to the host", self.gradients_down),
            ("new parameters to the GPU", self.parameters_up),
        ];
        let during = [
            (products.as_str(), self.compute),
            ("links between ranks", self.links),
            ("parameters from the host", self.host_links),
        ];
        part(&mut out, "passes, at the same time", self.passes, &during);
        part(&mut out, "gradient norm and optimizer in the GPU's memory", self.device_update, &[]);
        part(&mut out, "then, at the same time", self.update - self.device_update, &copied);
        part(&mut out, "links that wait for the passes or the optimizer", self.exchange, &[]);
        if !every.is_empty() {
            let name = format!("checkpoint: {:.1} s beside the steps, {every}", self.checkpoint);
            part(&mut out, &name, self.checkpoints, &[]);
        }
        out
    }
}

fn passes(count: f64) -> String {
    match count {
        1.0 => "a pass".to_owned(),
        count if count.fract() == 0.0 => format!("{count:.0} passes"),
        count => format!("{count:.2} passes"),
    }
}

/// A part with what runs at the same time within it, of which the longest counts. Those that take no time are left out.
fn part(out: &mut String, name: &str, seconds: f64, within: &[(&str, f64)]) {
    let counts = |seconds: f64| seconds > 0.0;
    let mut row = |name: String, seconds: f64| _ = writeln!(out, "  {name:<64} {seconds:>8.2} s");
    match within.iter().filter(|(_, seconds)| counts(*seconds)).collect::<Vec<_>>()[..] {
        [] if !counts(seconds) && !name.starts_with("checkpoint") => {}
        [] => row(name.to_owned(), seconds),
        ref parts => {
            row(name.to_owned(), seconds);
            parts.iter().for_each(|(name, seconds)| row(format!("  {name}"), *seconds));
        }
    }
}
