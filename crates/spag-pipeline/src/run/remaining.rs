//! How far a run is, and how long the rest will take by what its stages took.

use spag_io::duration;
use spag_run::StageDone;

use super::plan::PlannedStage;

/// The stages of a run with what they do, and the speed of the completed ones.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    planned: Vec<PlannedStage>,
    play: Speed,
    training: Speed,
}

/// Units of work and the seconds that they took.
#[derive(Clone, Copy, Debug, Default)]
struct Speed {
    units: f64,
    seconds: f64,
}

impl Speed {
    fn add(&mut self, units: usize, seconds: f64) {
        if units > 0 && seconds > 0.0 {
            self.units += units as f64;
            self.seconds += seconds;
        }
    }

    /// Seconds for so many units; `None` if the speed is not known.
    fn of(self, units: usize) -> Option<f64> {
        match units {
            0 => Some(0.0),
            units => (self.units > 0.0).then(|| units as f64 * self.seconds / self.units),
        }
    }
}

/// Whether models play the games of a stage: those of the imitation are mostly played by players that take no time.
fn is_played_by_models(stage: &PlannedStage) -> bool {
    stage.name != "im"
}

impl Remaining {
    pub(super) fn new(planned: Vec<PlannedStage>) -> Self {
        Self { planned, ..Self::default() }
    }

    /// Notes what a stage took.
    pub(super) fn finished(&mut self, at: usize, done: &StageDone) {
        let Some(stage) = self.planned.get(at).filter(|_| !done.resumed) else { return };
        let all: f64 = done.seconds.values().sum();
        let played = done.seconds.get("play").copied().unwrap_or(0.0);
        if is_played_by_models(stage) {
            self.play.add(stage.games, played);
        }
        if let Some(training) = &stage.training {
            self.training.add(training.steps, all - played);
        }
    }

    /// The line before the stage at a place: how many are done, and about how long the rest takes, once that is known.
    pub(super) fn headline(&self, at: usize) -> String {
        let count = self.planned.len();
        let name = self.planned.get(at).map_or("", |stage| &stage.name);
        let rest = self.rest(at).map(|seconds| format!("; about {} to go", duration(seconds))).unwrap_or_default();
        format!("stage {} of {count}: {name} ({at} done{rest})", at + 1)
    }

    /// Seconds of the stage at a place and all after it, without those whose work is not counted.
    fn rest(&self, at: usize) -> Option<f64> {
        let seconds = |stage: &PlannedStage| {
            let games = if is_played_by_models(stage) { stage.games } else { 0 };
            Some(
                self.play.of(games)?
                    + self.training.of(stage.training.as_ref().map_or(0, |training| training.steps))?,
            )
        };
        let rest: f64 = self.planned.get(at..)?.iter().map(seconds).sum::<Option<f64>>()?;
        (rest > 0.0).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, games: usize) -> PlannedStage {
        let (parts, inputs, outputs) = (Vec::new(), Vec::new(), Vec::new());
        PlannedStage { name: name.to_owned(), parts, inputs, outputs, games, training: None }
    }

    #[test]
    fn rest_follows_from_what_stages_took() {
        let stages = ["im", "spag-1", "eval", "benchmarks"].into_iter().zip([100, 200, 800, 0]);
        let mut left = Remaining::new(stages.map(|(name, games)| stage(name, games)).collect());
        let took = |seconds: f64| StageDone { seconds: [("play".to_owned(), seconds)].into(), ..StageDone::default() };
        assert_eq!(left.headline(0), "stage 1 of 4: im (0 done)");
        left.finished(0, &took(1000.0));
        assert_eq!(left.headline(1), "stage 2 of 4: spag-1 (1 done)");
        left.finished(1, &took(60.0));
        assert_eq!(left.headline(2), "stage 3 of 4: eval (2 done; about 4 minutes to go)");
        // Seconds of a resumed stage are not those of all its work, and benchmarks are not counted.
        left.finished(2, &StageDone { resumed: true, ..took(1.0) });
        assert_eq!(left.headline(3), "stage 4 of 4: benchmarks (3 done)");
    }
}
