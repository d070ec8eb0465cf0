//! What a rank of a run writes about its progress, for programs that watch the run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a rank of a run does now: the content of `RUN_DIR/status/rankR.json`. Times are in seconds since 1970.
///
/// ```
/// use spag_run::RankStatus;
///
/// let read: RankStatus = serde_json::from_str(r#"{"part": "games", "part_started": 10.0, "updated": 20.0,
///     "done_before": 5, "done": 25, "total": 65}"#)?;
/// assert_eq!((read.rate(), read.seconds_left()), (Some(2.0), Some(20.0)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankStatus {
    /// The rank.
    pub rank: usize,
    /// The number of ranks. Files of higher ranks are of an earlier launch.
    pub world_size: usize,
    /// The process.
    pub pid: u32,
    /// The machine of the process.
    pub host: String,
    /// Whether the rank works, or how it ended.
    pub state: RankState,
    /// When the rank started.
    pub started: f64,
    /// When this was written. A rank that runs writes about once a second, also if nothing progresses.
    pub updated: f64,
    /// When the last unit was completed.
    pub progressed: f64,
    /// The stage: `im`, `spag-1`, `eval` …
    pub stage: String,
    /// The part of the stage: `games`, `training` …; empty between two parts.
    pub part: String,
    /// When this process started the part.
    pub part_started: f64,
    /// Units of the part that an earlier process had completed.
    pub done_before: u64,
    /// Units completed.
    pub done: u64,
    /// All units of the part; 0 if it has no number of units.
    pub total: u64,
    /// What the program says beside the numbers: a loss, a rate.
    pub note: String,
    /// Bytes of memory that the process holds.
    pub resident_bytes: Option<u64>,
    /// The most bytes that it has held.
    pub peak_bytes: Option<u64>,
    /// The most bytes of tensors on its GPU.
    pub gpu_peak_bytes: Option<u64>,
    /// Why the rank failed, or was stopped.
    pub error: Option<String>,
}

/// Whether a rank works, or how it ended. A rank that was killed stays `Running`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RankState {
    /// It works.
    #[default]
    Running,
    /// It has completed the run.
    Finished,
    /// A rule of the run stopped it before its last stage.
    Stopped,
    /// It ended with an error.
    Failed,
}

impl RankStatus {
    /// The folder of these files in a run folder.
    pub const FOLDER: &str = "status";

    /// The file of a rank.
    pub fn path(run_dir: &Path, rank: usize) -> PathBuf {
        run_dir.join(Self::FOLDER).join(format!("rank{rank}.json"))
    }

    /// Units per second of this process in the part.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.updated - self.part_started;
        let units = self.done.saturating_sub(self.done_before);
        (units > 0 && seconds > 0.0).then(|| units as f64 / seconds)
    }

    /// Seconds until the part is complete, at this rate.
    pub fn seconds_left(&self) -> Option<f64> {
        let left = self.total.saturating_sub(self.done) as f64 / self.rate()?;
        (self.total > 0 && left.is_finite()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_unit_or_a_total_there_is_no_rate_or_no_end() {
        let at = |done_before, done, total| RankStatus {
            part_started: 1.0,
            updated: 3.0,
            done_before,
            done,
            total,
            ..RankStatus::default()
        };
        assert_eq!((at(4, 4, 9).rate(), at(4, 4, 9).seconds_left()), (None, None));
        assert_eq!((at(0, 4, 0).rate(), at(0, 4, 0).seconds_left()), (Some(2.0), None));
        assert_eq!(at(0, 10, 9).seconds_left(), Some(0.0));
        assert_eq!(RankStatus { updated: 0.5, ..at(0, 4, 9) }.rate(), None, "clocks may go back");
    }
}
