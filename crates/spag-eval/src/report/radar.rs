//! The radar plot: an axis for each task, a polygon for each model.

use std::f64::consts::TAU;
use std::fmt::Write;

use super::table::show;
use crate::html::{escape, figure};
use crate::results::{MetricScore, ModelScores, TaskScore};

/// Size of the plot in SVG units; the page scales it.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 340.0;
/// Length of an axis.
const RADIUS: f64 = 138.0;
/// Rings, of which the last is the end of the axes.
const RINGS: u32 = 4;
/// Axes of a plot, at most; more could not be read.
const MAX_AXES: usize = 24;
/// Letters of an axis' name, at most.
const MAX_LABEL: usize = 14;

/// Colour, dash and key of each polygon; repeated if there are more.
const STYLES: [(&str, &str, &str); 5] = [
    ("grey", "2 4", "dotted"),
    ("orange", "7 4", "dashed"),
    ("pink", "10 3 2 3", "dashdot"),
    ("green", "", "solid"),
    ("blue", "", "solid"),
];

/// An axis: a group or a task whose main metric is a share.
struct Spoke<'a> {
    name: &'a str,
    label: &'a str,
    chance: Option<f64>,
}

/// The radar plot of the main metrics as a figure, as HTML. `None` with fewer than three axes, of which no polygon can be drawn.
///
/// Groups have one axis; metrics that are no shares, such as perplexities, have none. All axes have the same scale, which begins
/// at 0.
pub fn radar(models: &[ModelScores]) -> Option<String> {
    let first = models.first()?;
    let is_axis =
        |task: &&TaskScore| task.group.is_none() && task.main().is_some_and(|main| main.metric.higher_is_better());
    let spokes: Vec<Spoke<'_>> = first
        .tasks
        .iter()
        .filter(is_axis)
        .map(|task| Spoke { name: &task.name, label: &task.alias, chance: task.chance })
        .take(MAX_AXES)
        .collect();
    if spokes.len() < 3 {
        return None;
    }
    let plot = Plot { top: top(models, &spokes), spokes };
    let mut body = plot.frame();
    let mut legend = Vec::new();
    for (at, model) in models.iter().enumerate() {
        // The last model has the most prominent style.
        let from_end = (models.len() - at) % STYLES.len();
        let (colour, dash, key) = STYLES[(STYLES.len() - from_end) % STYLES.len()];
        body.push_str(&plot.polygon(model, colour, dash));
        legend.push((colour, key, model.name.as_str()));
    }
    // Over the polygons, which would hide the values of the rings.
    body.push_str(&plot.values());
    let all_have_chance = plot.spokes.iter().all(|spoke| spoke.chance.is_some());
    let note = if all_have_chance { " The thin line is chance." } else { "" };
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let svg = format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}"><desc>{}</desc>{body}</svg>"#,
        escape(&format!("Radar plot of {} tasks for {}", plot.spokes.len(), names.join(", "))),
        escape("One axis a task, one polygon a model; the table has the values."),
    );
    let note = format!("% of rows, the main metric of each task; the centre is 0.{note} The table has 95% intervals.");
    Some(figure("Tasks and models", &legend, &svg, &note))
}

/// The end of all axes: the next multiple of a fifth above all values.
fn top(models: &[ModelScores], spokes: &[Spoke<'_>]) -> f64 {
    let shown = models.iter().flat_map(|model| spokes.iter().filter_map(|spoke| value(model, spoke)));
    let values = shown.map(|main| main.value.value).chain(spokes.iter().filter_map(|spoke| spoke.chance));
    let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    ((highest * 5.0).ceil() / 5.0).clamp(0.2, 1.0)
}

fn value<'a>(model: &'a ModelScores, spoke: &Spoke<'_>) -> Option<&'a MetricScore> {
    model.tasks.iter().find(|task| task.name == spoke.name && task.group.is_none())?.main()
}

struct Plot<'a> {
    spokes: Vec<Spoke<'a>>,
    top: f64,
}

impl Plot<'_> {
    /// The point of a share on an axis.
    fn point(&self, axis: usize, share: f64) -> (f64, f64) {
        let angle = TAU * axis as f64 / self.spokes.len() as f64;
        let distance = RADIUS * (share / self.top).clamp(0.0, 1.0);
        (WIDTH / 2.0 + distance * angle.sin(), HEIGHT / 2.0 - distance * angle.cos())
    }

    fn points(&self, shares: impl Iterator<Item = f64>) -> String {
        let points = shares.enumerate().map(|(axis, share)| self.point(axis, share));
        points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    }

    /// The shares at which there are rings.
    fn rings(&self) -> impl Iterator<Item = f64> {
        (1..=RINGS).map(|ring| self.top * f64::from(ring) / f64::from(RINGS))
    }

    /// The values of the rings.
    fn values(&self) -> String {
        let value = |ring: f64| {
            let (x, y) = self.point(0, ring);
            format!(
                r#"<text class="tick over" x="{:.1}" y="{:.1}" text-anchor="end">{:.0}</text>"#,
                x - 7.0,
                y + 4.0,
                100.0 * ring
            )
        };
        self.rings().map(value).collect()
    }

    /// Rings, axes with their names, and chance.
    fn frame(&self) -> String {
        let mut body = String::new();
        for ring in self.rings() {
            let path: Vec<String> = (0..self.spokes.len())
                .map(|axis| self.point(axis, ring))
                .map(|(x, y)| format!("{x:.1} {y:.1}"))
                .collect();
            let _ = write!(body, r#"<path class="grid" style="fill:none" d="M{} Z"/>"#, path.join(" L"));
        }
        for (axis, spoke) in self.spokes.iter().enumerate() {
            let (x, y) = self.point(axis, self.top);
            let (cx, cy) = (WIDTH / 2.0, HEIGHT / 2.0);
            let (dx, dy) = ((x - cx) / RADIUS, (y - cy) / RADIUS);
            let anchor = match dx {
                dx if dx > 0.2 => "start",
                dx if dx < -0.2 => "end",
                _ => "middle",
            };
            let (tx, ty) = (x + 10.0 * dx, y + 14.0 * dy + 4.0);
            let _ = write!(
                body,
                r#"<line class="grid" x1="{cx}" y1="{cy}" x2="{x:.1}" y2="{y:.1}"/><text class="label" x="{tx:.1}" y="{ty:.1}" text-anchor="{anchor}">{}</text>"#,
                escape(&shorten(spoke.label))
            );
        }
        let chances: Option<Vec<f64>> = self.spokes.iter().map(|spoke| spoke.chance).collect();
        if let Some(chances) = chances {
            let path: Vec<String> = chances
                .iter()
                .enumerate()
                .map(|(axis, chance)| self.point(axis, *chance))
                .map(|(x, y)| format!("{x:.1} {y:.1}"))
                .collect();
            let _ = write!(body, r#"<path class="rule" style="fill:none" d="M{} Z"/>"#, path.join(" L"));
        }
        body
    }

    /// The polygon of a model, with a mark on each axis that tells its value.
    fn polygon(&self, model: &ModelScores, colour: &str, dash: &str) -> String {
        let found: Vec<Option<&MetricScore>> = self.spokes.iter().map(|spoke| value(model, spoke)).collect();
        let share = |score: &Option<&MetricScore>| score.map_or(0.0, |score| score.value.value).max(0.0);
        let mut body = format!(
            r#"<polygon class="line" points="{}" style="stroke:var(--{colour});fill:var(--{colour});fill-opacity:.03" stroke-dasharray="{dash}"><title>{}</title></polygon>"#,
            self.points(found.iter().map(share)),
            escape(&model.name)
        );
        for (axis, score) in found.iter().enumerate() {
            let Some(score) = score else { continue };
            let (x, y) = self.point(axis, share(&Some(score)));
            let hint = format!("{}, {}: {} %", model.name, self.spokes[axis].label, show(score));
            let _ = write!(
                body,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.2" style="fill:var(--{colour})"><title>{}</title></circle>"#,
                escape(&hint)
            );
        }
        body
    }
}

fn shorten(label: &str) -> String {
    match label.char_indices().nth(MAX_LABEL) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None => label.to_owned(),
    }
}
