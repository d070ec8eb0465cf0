//! The updates of an on-policy run: curves, and means of three parts of the run as a table.

use std::ops::Range;

use spag_run::document::{Chart, Series, Table};

use super::charts::curve;
use super::data::Report;
use super::measures::{Group, Measure, groups};

/// The groups of a report without measures that no update has.
fn measured(report: &Report) -> Vec<Group> {
    let has = |measure: &Measure| report.updates.iter().any(|point| point.values.contains_key(&measure.key));
    let games: Vec<_> = report.games().map(|game| (game.folder.as_deref(), game.labels())).collect();
    let mut groups = groups(&games);
    groups.iter_mut().for_each(|group| group.measures.retain(has));
    groups.retain(|group| !group.measures.is_empty());
    groups
}

/// The first, middle and last tenth of so many updates, without repetitions in short runs.
fn parts(updates: usize) -> Vec<Range<usize>> {
    let tenth = updates.div_ceil(10);
    let mut parts: Vec<_> =
        [0, (updates - tenth) / 2, updates - tenth].map(|from| from..from + tenth).into_iter().collect();
    parts.retain(|part| !part.is_empty());
    parts.dedup();
    parts
}

/// The table of what was measured in each part; `None` without updates.
pub(super) fn update_table(report: &Report) -> Option<Table> {
    let parts = parts(report.updates.len());
    let name = |part: &Range<usize>| match &report.updates[part.clone()] {
        [first, .., last] => format!("updates {}–{}", first.update, last.update),
        [only] => format!("update {}", only.update),
        [] => String::new(),
    };
    let mut rows = Vec::new();
    for Group { unit, measures, .. } in measured(report) {
        for Measure { key, name } in measures {
            let mean = |part: &Range<usize>| {
                let values: Vec<f64> =
                    report.updates[part.clone()].iter().filter_map(|point| point.values.get(&key).copied()).collect();
                unit.show((!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64))
            };
            rows.push(std::iter::once(name).chain(parts.iter().map(mean)).collect());
        }
    }
    let columns = std::iter::once("mean".to_owned()).chain(parts.iter().map(name));
    let title = "Updates: means over the first, the middle and the last tenth of them; shares in %";
    Table::new(title, columns, rows).filled()
}

/// The charts over updates; none without updates.
pub(super) fn update_charts(report: &Report) -> impl Iterator<Item = Chart> {
    measured(report).into_iter().map(|Group { title, axis, note, unit, measures }| {
        let series = measures.into_iter().map(|Measure { key, name }| {
            let points = report.updates.iter();
            let points = points.filter_map(|point| Some([point.update as f64, unit.scale() * point.values.get(&key)?]));
            Series::new(name, points)
        });
        let chart = curve("update", series.collect());
        // From zero, so that a small change does not look like a collapse.
        let (up, note) = (axis.to_owned(), format!("{note} Pale: update by update; bold: smoothed."));
        Chart { title, up, note, includes: vec![0.0], ..chart }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_tenths_and_do_not_repeat() {
        assert!(parts(0).is_empty());
        assert_eq!(parts(1), [0..1]);
        assert_eq!(parts(2), [0..1, 1..2]);
        assert_eq!(parts(3), [0..1, 1..2, 2..3]);
        assert_eq!(parts(68), [0..7, 30..37, 61..68]);
        assert_eq!(parts(1000), [0..100, 450..550, 900..1000]);
    }
}
