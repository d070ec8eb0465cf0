//! Runs side by side: the runs that differ in their seeds only are an arm, whose games are pooled.

mod changes;
mod document;
mod text;

use std::path::{Path, PathBuf};

use spag_eval::{ComparedRun, Comparison};
use spag_game::Labels;
use spag_io::{quote, read_json, read_text};
use spag_run::files;
use toml::{Table, Value};

pub use self::document::arms_document;
pub use self::text::{arms_warnings, render_arms};
use super::data::Report;
use super::exact::Skill;
use crate::error::{Error, Result};

/// Bytes of resolved settings.
const MAX_SETTINGS: u64 = 1 << 20;

/// Runs with the same settings but for their seeds.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The name of its first run's folder without a number at its end.
    pub name: String,
    /// The reports, in the order of the seeds.
    pub reports: Vec<Report>,
    /// The models of the runs that have control arms, row by row.
    compared: Vec<ComparedRun>,
}

impl Arm {
    /// The epochs of the evaluated models.
    fn epochs(&self) -> impl Iterator<Item = usize> {
        self.reports.first().into_iter().flat_map(|report| &report.first.matches).map(|game| game.epoch)
    }

    /// The last model against the base model and the control arms, over all seeds that have them.
    fn controls(&self) -> Option<Comparison> {
        Comparison::new(&self.compared)
    }
}

/// Reads the reports of runs and sorts them into arms, in the order in which they are given.
///
/// # Errors
/// A folder without a report or settings, one seed twice in an arm, or runs of different games.
pub fn read_arms(folders: &[PathBuf]) -> Result<Vec<Arm>> {
    let mut arms: Vec<(Table, Arm)> = Vec::new();
    for folder in folders {
        let (report, settings) = (read_report(folder)?, read_settings(folder)?);
        let compared: Option<ComparedRun> = read_json(folder.join(files::BENCHMARKS).join(files::COMPARED))?;
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
            Some((_, arm)) => {
                arm.reports.push(report);
                arm.compared.extend(compared);
            }
            None => {
                let (name, compared) = (arm_name(folder), compared.into_iter().collect());
                arms.push((settings, Arm { name, reports: vec![report], compared }));
            }
        }
    }
    for (_, arm) in &mut arms {
        arm.reports.sort_by_key(|report| report.seed);
    }
    Ok(arms.into_iter().map(|(_, arm)| arm).collect())
}

fn read_report(folder: &Path) -> Result<Report> {
    let path = folder.join(files::REPORT_DATA);
    read_json(&path)?.ok_or_else(|| Error::Malformed {
        place: path.display().to_string(),
        message: "there is no report; finish the run with `spag run` first".to_owned(),
    })
}

/// The settings of a run without its seed and its places.
fn read_settings(folder: &Path) -> Result<Table> {
    let path = folder.join(files::SETTINGS);
    let text = read_text(&path, MAX_SETTINGS)?;
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| Error::Malformed {
        place: path.display().to_string(),
        message: error.to_string(),
    })?;
    ["seed", "run_dir", "device", "hardware"].into_iter().for_each(|key| drop(table.remove(key)));
    // A control arm has those of its run, which follow from the seed.
    if folder.parent().and_then(Path::file_name).is_some_and(|parent| parent == files::CONTROLS) {
        table.remove("base_model");
        table.get_mut("sft").and_then(Value::as_table_mut).map(|sft| sft.remove("alone"));
    }
    Ok(table)
}

/// "runs/tiny-online-3" is "tiny-online".
fn arm_name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', '_']);
    if base.is_empty() { name.into_owned() } else { base.to_owned() }
}

/// The measure against perfect play of the game of all arms, if it has one.
fn skill(arms: &[Arm]) -> Option<Skill> {
    Skill::of(&arms.first()?.reports.first()?.first)
}

/// The names of the game of all arms.
fn labels(arms: &[Arm]) -> Option<&'static Labels> {
    arms.iter().flat_map(|arm| &arm.reports).map(|report| report.first.labels()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_have_the_name_without_the_seed() {
        assert_eq!(arm_name(Path::new("runs/tiny-online-3")), "tiny-online");
        assert_eq!(arm_name(Path::new("runs/7")), "7");
    }
}
