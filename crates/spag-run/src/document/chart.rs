//! Charts as data.

use serde::{Deserialize, Serialize};

/// A chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// What is to be known of it.
    pub note: String,
    /// How its series are drawn.
    pub look: Look,
    /// The quantity across.
    pub across: String,
    /// The quantity upwards, and its unit.
    pub up: String,
    /// The names of the places 0, 1 … across, or of the axes of a radar plot; empty if numbers are across.
    pub names: Vec<String>,
    /// Values that the axis upwards includes besides those of the series.
    pub includes: Vec<f64>,
    /// A value that a line across marks.
    pub rule: Option<f64>,
    /// Over how many values lines are averaged, if over more than one. The values themselves are then drawn faintly.
    pub smooth: usize,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How the series of a chart are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// As lines, with bands between the ends of intervals.
    #[default]
    Lines,
    /// As bars that stand on each other.
    Bars,
    /// As polygons over axes of shares in per cent.
    Radar,
}

/// A line, a colour of bars, or a polygon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its values by place, in order.
    pub points: Vec<[f64; 2]>,
    /// The ends of the interval of each value; empty if they have none.
    pub intervals: Vec<[f64; 2]>,
    /// Whether the others are compared with it, as chance is.
    pub is_reference: bool,
}

impl Chart {
    /// The chart, if a series has values.
    pub fn filled(self) -> Option<Self> {
        self.series.iter().any(|series| !series.points.is_empty()).then_some(self)
    }
}

impl Series {
    /// A series without intervals. What is not finite is left out.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = [f64; 2]>) -> Self {
        let points = points.into_iter().filter(is_finite).collect();
        Self { name: name.into(), points, intervals: Vec::new(), is_reference: false }
    }

    /// A series of values with the ends of their intervals. What is not finite is left out.
    pub fn with_intervals(name: impl Into<String>, points: impl IntoIterator<Item = ([f64; 2], [f64; 2])>) -> Self {
        let finite = points.into_iter().filter(|(point, interval)| is_finite(point) && is_finite(interval));
        let (points, intervals) = finite.unzip();
        Self { name: name.into(), points, intervals, is_reference: false }
    }
}

fn is_finite(numbers: &[f64; 2]) -> bool {
    numbers.iter().all(|number| number.is_finite())
}
