//! Runs side by side: the runs that differ in their seeds only are an arm, whose games are pooled.

use std::path::{Path, PathBuf};

use spag_game::{Labels, Seat};
use spag_io::{quote, read_text};
use spag_selfplay::{Change, Rate, text_table};
use toml::Table;

use super::data::{Match, Report};
use crate::error::{Error, Result};

/// Bytes of a report.
const MAX_REPORT: u64 = 1 << 28;
/// Bytes of resolved settings.
const MAX_SETTINGS: u64 = 1 << 20;
/// Pairs up to which all signs are tried.
const MOST_SIGNS: u32 = 20;

/// Runs with the same settings but for their seeds.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The name of its first run's folder without a number at its end.
    pub name: String,
    /// The reports, in the order of the seeds.
    pub reports: Vec<Report>,
}

/// The difference between two arms in a seat, over the seeds that both have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedSeeds {
    /// Seeds.
    pub seeds: usize,
    /// Mean difference in points.
    pub mean: f64,
    /// Two-sided p of the exact sign-flip test: the share of all assignments of signs to the differences whose mean is at least as
    /// far from 0.
    pub p: f64,
}

/// Reads the reports of runs and sorts them into arms, in the order in which they are given.
///
/// # Errors
/// A folder without a report or settings, one seed twice in an arm, or runs of different games.
pub fn read_arms(folders: &[PathBuf]) -> Result<Vec<Arm>> {
    let mut arms: Vec<(Table, Arm)> = Vec::new();
    for folder in folders {
        let (report, settings) = (read_report(folder)?, read_settings(folder)?);
        let bad = |message: String| Error::Malformed { place: folder.display().to_string(), message };
        if let Some((_, first)) = arms.first()
            && first.reports.iter().any(|other| other.first.game != report.first.game)
        {
            return Err(bad("it is of another game than the runs before it".to_owned()));
        }
        match arms.iter_mut().find(|(known, _)| *known == settings) {
            Some((_, arm)) if arm.reports.iter().any(|other| other.seed == report.seed) => {
                let message =
                    format!("the arm {} has seed {} already; leave one of them out", quote(&arm.name), report.seed);
                return Err(bad(message));
            }
            Some((_, arm)) => arm.reports.push(report),
            None => arms.push((settings, Arm { name: arm_name(folder), reports: vec![report] })),
        }
    }
    for (_, arm) in &mut arms {
        arm.reports.sort_by_key(|report| report.seed);
    }
    Ok(arms.into_iter().map(|(_, arm)| arm).collect())
}

fn read_report(folder: &Path) -> Result<Report> {
    let path = folder.join("report.json");
    let text = read_text(&path, MAX_REPORT)?;
    serde_json::from_str(&text)
        .map_err(|error| Error::Malformed { place: path.display().to_string(), message: error.to_string() })
}

/// The settings of a run without its seed and its places.
fn read_settings(folder: &Path) -> Result<Table> {
    let path = folder.join("config.resolved.toml");
    let text = read_text(&path, MAX_SETTINGS)?;
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| Error::Malformed {
        place: path.display().to_string(),
        message: error.to_string(),
    })?;
    ["seed", "run_dir", "device", "hardware"].into_iter().for_each(|key| drop(table.remove(key)));
    Ok(table)
}

/// "runs/tiny-online-3" is "tiny-online".
fn arm_name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', '_']);
    if base.is_empty() { name.into_owned() } else { base.to_owned() }
}

impl Arm {
    /// The change of the last model's win rate in a seat from that of IM against itself, over all seeds; of each seed, and of all
    /// together.
    fn changes(&self, words: Words, seat: Seat) -> (Vec<(u64, f64)>, Option<Change>) {
        let (mut each, mut before, mut after) = (Vec::new(), Rate::new(0, 0), Rate::new(0, 0));
        for report in &self.reports {
            let Some((baseline, last)) = words.of(report) else { continue };
            let (old, new) = (baseline, last.win_as(seat));
            let old = old.win[seat];
            each.extend(Change::between(old, new).map(|change| (report.seed, change.points)));
            (before, after) = (before.pooled(old), after.pooled(new));
        }
        (each, Change::between(before, after))
    }

    /// The difference of another arm from this one, seed by seed.
    fn paired(&self, other: &Self, words: Words, seat: Seat) -> Option<PairedSeeds> {
        let (own, others) = (self.changes(words, seat).0, other.changes(words, seat).0);
        let differences: Vec<f64> = own
            .iter()
            .filter_map(|(seed, points)| Some(others.iter().find(|(of, _)| of == seed)?.1 - points))
            .collect();
        sign_flips(&differences)
    }
}

/// Which words the games of an evaluation were played on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Trained,
    HeldOut,
}

impl Words {
    /// IM against itself, and the last model's games.
    fn of(self, report: &Report) -> Option<(&crate::PlayStats, &Match)> {
        match self {
            Self::Trained => Some((&report.first.baseline, report.first.matches.last()?)),
            Self::HeldOut => {
                report.first.held_out.as_ref().and_then(|held| Some((&held.baseline, held.matches.last()?)))
            }
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Trained => "words of the training",
            Self::HeldOut => "words that were held out",
        }
    }
}

/// The exact test of differences in pairs; `None` without pairs or with too many.
fn sign_flips(differences: &[f64]) -> Option<PairedSeeds> {
    let seeds = differences.len();
    let count = u32::try_from(seeds).ok().filter(|count| (1..=MOST_SIGNS).contains(count))?;
    let sum: f64 = differences.iter().sum();
    let flipped = |signs: u32| -> f64 {
        let signed = differences.iter().enumerate().map(|(at, d)| if signs >> at & 1 == 1 { -d } else { *d });
        signed.sum()
    };
    let all = 1u32 << count;
    let as_far = (0..all).filter(|signs| flipped(*signs).abs() >= sum.abs() - 1e-9).count();
    Some(PairedSeeds { seeds, mean: sum / seeds as f64, p: as_far as f64 / f64::from(all) })
}

/// A table of arms: how the last model's win rates in both seats differ from those of IM, pooled over seeds, with 95% intervals,
/// and how arms differ from the first one, seed by seed.
pub fn render_arms(arms: &[Arm]) -> String {
    let Some(labels) = arms.iter().flat_map(|arm| &arm.reports).map(|report| report.first.labels()).next() else {
        return String::new();
    };
    let mut text = String::new();
    for words in [Words::Trained, Words::HeldOut] {
        if arms.iter().flat_map(|arm| &arm.reports).any(|report| words.of(report).is_some()) {
            text.push_str(&table(arms, labels, words));
        }
    }
    text.push_str(&benchmarks(arms));
    text
}

fn table(arms: &[Arm], labels: &Labels, words: Words) -> String {
    let [first, second] = labels.seats;
    let mut header = vec!["arm".to_owned(), "seeds".to_owned()];
    header.extend(labels.seats.map(|seat| format!("as {seat}, points")));
    header.extend(labels.seats.map(|seat| format!("{seat}: from the first arm (p)")));
    let rows = arms.iter().enumerate().map(|(at, arm)| {
        let change = |seat| arm.changes(words, seat).1.map_or_else(|| "–".to_owned(), |change| change.to_string());
        let paired = |seat| match arms.first().filter(|_| at > 0).and_then(|one| one.paired(arm, words, seat)) {
            Some(PairedSeeds { mean, p, .. }) => format!("{mean:+.1} ({p:.3})"),
            None => "–".to_owned(),
        };
        vec![
            arm.name.clone(),
            arm.reports.len().to_string(),
            change(first),
            change(second),
            paired(first),
            paired(second),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    format!(
        "Win rates of the last model against IM, minus those of IM against itself, on {}\n\n{}\n",
        words.title(),
        text_table(&header, &rows)
    )
}

/// The last model's mean score over the tasks of the benchmarks, minus the base model's, averaged over seeds.
fn benchmarks(arms: &[Arm]) -> String {
    let mean = |scores: &spag_eval::ModelScores| {
        let scores: Vec<f64> = scores
            .tasks
            .iter()
            .filter(|task| task.group.is_none())
            .filter_map(|task| Some(task.main()?.value.value))
            .collect();
        scores.iter().sum::<f64>() / scores.len().max(1) as f64
    };
    let rows: Vec<Vec<String>> = arms
        .iter()
        .filter_map(|arm| {
            let scored =
                arm.reports.iter().filter_map(|report| Some((report.benchmarks.first()?, report.benchmarks.last()?)));
            let changes: Vec<f64> = scored.map(|(base, last)| 100.0 * (mean(last) - mean(base))).collect();
            let average = changes.iter().sum::<f64>() / changes.len().max(1) as f64;
            (!changes.is_empty()).then(|| vec![arm.name.clone(), changes.len().to_string(), format!("{average:+.1}")])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "Benchmarks: last model minus base model, mean over tasks\n\n{}\n",
        text_table(&["arm", "seeds", "points"], &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_flipped_exactly() {
        let all = sign_flips(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((all.seeds, all.mean, all.p), (3, 2.0, 0.25));
        // ±(5 − 4) is as far as the sum of the differences, every other assignment is at least as far.
        assert_eq!(sign_flips(&[5.0, -4.0]).unwrap().p, 1.0);
        assert_eq!(sign_flips(&[0.5]).unwrap().p, 1.0);
        assert_eq!(sign_flips(&[]), None);
    }

    #[test]
    fn arms_have_the_name_without_the_seed() {
        assert_eq!(arm_name(Path::new("runs/tiny-online-3")), "tiny-online");
        assert_eq!(arm_name(Path::new("runs/7")), "7");
    }
}
