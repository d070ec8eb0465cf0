//! What the ranks of a run say of themselves, and whether they still live.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::folder::RunFolder;
use crate::status::{RankState, RankStatus};

/// Ranks that are shown.
const MOST: usize = 1024;
/// A rank writes every second. One that has not written for so long may be gone.
const SILENT: Duration = Duration::from_secs(30);
/// The same if there is no such process on this machine.
const GONE: Duration = Duration::from_secs(4);
/// Whether a rank works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// It works.
    Running,
    /// It has ended well.
    Finished,
    /// A rule of the run stopped it.
    Stopped,
    /// It has ended with an error.
    Failed,
    /// It ended without a word: it was killed, or its machine was.
    Gone,
    /// Its process is there but has written nothing for long: it was stopped, or its disk hangs.
    Silent,
}

/// A rank of the last launch.
#[derive(Clone, Debug)]
pub struct Rank {
    /// What it said last.
    pub status: RankStatus,
    /// Whether it works.
    pub life: Life,
    /// Since it wrote.
    pub age: Duration,
}

/// The ranks of a run.
#[derive(Debug, Default)]
pub struct Ranks {
    /// When each rank was seen to write, by this process's clock: that of another machine may be wrong.
    written: HashMap<usize, (f64, Instant)>,
    ranks: Vec<Rank>,
}

impl Ranks {
    /// Reads what all ranks say.
    pub fn update(&mut self, run: &RunFolder) {
        self.ranks.clear();
        let Some(first) = read(run, 0) else { return };
        let size = first.world_size.clamp(1, MOST);
        let others = (1..size).filter_map(|rank| read(run, rank));
        for status in std::iter::once(first).chain(others) {
            let age = self.age(&status);
            let life = life(&status, age);
            self.ranks.push(Rank { status, life, age });
        }
    }

    /// Time since a rank wrote: by the clocks of both machines, or less if it was seen to write.
    fn age(&mut self, status: &RankStatus) -> Duration {
        let now = Instant::now();
        let since =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()) - status.updated;
        let by_clock = Duration::try_from_secs_f64(since.max(0.0)).unwrap_or(Duration::MAX);
        match self.written.get_mut(&status.rank) {
            Some((written, seen)) if *written == status.updated => by_clock.min(now - *seen),
            Some(known) => {
                *known = (status.updated, now);
                Duration::ZERO
            }
            None => {
                // What was there before this process looked may be old.
                let seen = now.checked_sub(by_clock).unwrap_or(now);
                self.written.insert(status.rank, (status.updated, seen));
                by_clock
            }
        }
    }

    /// All ranks of the last launch.
    pub fn all(&self) -> &[Rank] {
        &self.ranks
    }

    /// Rank 0, which does everything that one rank does alone.
    pub fn first(&self) -> Option<&Rank> {
        self.ranks.first()
    }
}

fn read(run: &RunFolder, rank: usize) -> Option<RankStatus> {
    let path = RankStatus::path(Path::new(""), rank);
    let status: RankStatus = serde_json::from_slice(&run.small_file(path)?).ok()?;
    Some(RankStatus { rank, ..status })
}

fn life(status: &RankStatus, age: Duration) -> Life {
    match status.state {
        RankState::Finished => Life::Finished,
        RankState::Stopped => Life::Stopped,
        RankState::Failed => Life::Failed,
        RankState::Running => {
            let is_here = *gethostname::gethostname() == *status.host;
            let is_process = Path::new("/proc").join(status.pid.to_string()).is_dir();
            match () {
                () if is_here && !is_process && age > GONE => Life::Gone,
                () if age <= SILENT => Life::Running,
                () if is_here && is_process => Life::Silent,
                () => Life::Gone,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
    }

    fn write(root: &Path, status: &RankStatus) {
        spag_io::write_json_atomically(RankStatus::path(root, status.rank), status).unwrap();
    }

    fn lives(ranks: &mut Ranks, root: &Path) -> Vec<Life> {
        ranks.update(&RunFolder::new(root));
        ranks.all().iter().map(|rank| rank.life).collect()
    }

    #[test]
    fn killed_rank_is_told_from_a_slow_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let here = gethostname::gethostname().to_string_lossy().into_owned();
        let (own, none) = (std::process::id(), u32::MAX);
        let mut ranks = Ranks::default();
        assert_eq!(lives(&mut ranks, root), []);
        for (host, pid, age, life) in [
            (&*here, own, 0.0, Life::Running),
            (&here, own, 3600.0, Life::Silent),
            (&here, none, 0.0, Life::Running),
            (&here, none, 10.0, Life::Gone),
            ("elsewhere", none, 10.0, Life::Running),
            ("elsewhere", own, 3600.0, Life::Gone),
        ] {
            let host = host.to_owned();
            write(root, &RankStatus { world_size: 1, pid, host, updated: now() - age, ..RankStatus::default() });
            assert_eq!(lives(&mut Ranks::default(), root), [life], "{pid} {age}");
        }
        // A machine whose clock is an hour late lives as long as it is seen to write.
        let late = |second: f64| RankStatus {
            world_size: 1,
            host: "elsewhere".into(),
            updated: now() - 3600.0 + second,
            ..RankStatus::default()
        };
        write(root, &late(0.0));
        assert_eq!(lives(&mut ranks, root), [Life::Gone]);
        write(root, &late(1.0));
        assert_eq!(lives(&mut ranks, root), [Life::Running]);
        assert_eq!(lives(&mut ranks, root), [Life::Running]);
    }

    #[test]
    fn ranks_of_an_earlier_launch_and_damaged_files_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for rank in 0..4 {
            let state = if rank == 1 { RankState::Failed } else { RankState::Finished };
            let error = (rank == 1).then(|| "<b>no disk</b>".into());
            write(root, &RankStatus { rank, world_size: 3, state, error, updated: now(), ..RankStatus::default() });
        }
        let mut ranks = Ranks::default();
        assert_eq!(lives(&mut ranks, root), [Life::Finished, Life::Failed, Life::Finished]);
        assert_eq!(ranks.all()[1].status.error.as_deref(), Some("<b>no disk</b>"));
        std::fs::write(RankStatus::path(root, 2), "{\"rank\": ").unwrap();
        assert_eq!(lives(&mut ranks, root).len(), 2);
        std::fs::write(RankStatus::path(root, 0), "{\"rank\": 7, \"world_size\": 1e9}").unwrap();
        assert_eq!(lives(&mut ranks, root), []);
        for odd in
            ["{\"updated\": -1e300, \"started\": 1e300}", "{\"updated\": 1e300, \"world_size\": 18446744073709551615}"]
        {
            std::fs::write(RankStatus::path(root, 0), odd).unwrap();
            assert!(!lives(&mut ranks, root).is_empty());
        }
    }
}
