//! The radar plot: an axis for each task, a polygon for each model.

use spag_run::document::{Chart, Look, Series};

use crate::results::{MetricScore, ModelScores, TaskScore};

/// Axes of a plot, at most; more could not be read.
const MAX_AXES: usize = 24;

/// The radar plot of the main metrics. `None` with fewer than three axes, of which no polygon can be drawn.
///
/// Groups have one axis; metrics that are no shares, such as perplexities, have none.
pub(super) fn radar(models: &[ModelScores]) -> Option<Chart> {
    let is_axis =
        |task: &&TaskScore| task.group.is_none() && task.main().is_some_and(|main| main.metric.higher_is_better());
    let axes: Vec<&TaskScore> = models.first()?.tasks.iter().filter(is_axis).take(MAX_AXES).collect();
    if axes.len() < 3 {
        return None;
    }
    let mut series: Vec<Series> = models.iter().map(|model| polygon(model, &axes)).collect();
    let chances: Option<Vec<f64>> = axes.iter().map(|task| task.chance).collect();
    series.extend(chances.map(|chances| {
        let points = chances.into_iter().enumerate().map(|(axis, chance)| [axis as f64, 100.0 * chance]);
        Series { is_reference: true, ..Series::new("chance", points) }
    }));
    Some(Chart {
        title: "Tasks and models".to_owned(),
        up: "the main metric of each task, % of rows".to_owned(),
        note: "The centre is 0. The intervals are 95% intervals.".to_owned(),
        look: Look::Radar,
        across: "task".to_owned(),
        names: axes.iter().map(|task| task.alias.clone()).collect(),
        series,
        ..Chart::default()
    })
}

/// The scores of a model on the axes; 0 where it has none.
fn polygon(model: &ModelScores, axes: &[&TaskScore]) -> Series {
    let point = |(axis, task): (usize, &&TaskScore)| {
        let found = model.tasks.iter().find(|other| other.name == task.name && other.group.is_none());
        let score = found.and_then(TaskScore::main);
        let share = score.map_or(0.0, |score: &MetricScore| score.value.value).max(0.0);
        let (low, high) = score.and_then(|score| score.interval).unwrap_or((share, share));
        ([axis as f64, 100.0 * share], [100.0 * low, 100.0 * high])
    };
    Series::with_intervals(&model.name, axes.iter().enumerate().map(point))
}
