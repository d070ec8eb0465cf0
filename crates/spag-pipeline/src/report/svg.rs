//! Charts as SVG: axes, and shapes in data coordinates. Colours are CSS variables of the page.

use std::fmt::Write;

use spag_eval::html::escape;

/// Width of a chart in SVG units; the page scales it.
const WIDTH: f64 = 390.0;
/// Height of every chart.
const HEIGHT: f64 = 275.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// A linear axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Value at the left or bottom end.
    pub(super) from: f64,
    /// Value at the right or top end.
    pub(super) to: f64,
    /// The quantity and its unit.
    pub(super) label: String,
    /// Positions and labels of the ticks.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis over `from..=to` with about `count` round ticks.
    pub(super) fn round(from: f64, to: f64, count: usize, label: &str) -> Self {
        let span = to - from;
        // Also without a round step in between: values that are equal but for their last bits, or as large as can be.
        let span = if span.is_finite() && span > f64::EPSILON * from.abs().max(1e-30) { span } else { 1.0 };
        let raw = span / count.max(1) as f64;
        let magnitude = 10f64.powf(raw.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * magnitude).find(|step| *step >= raw).unwrap_or(raw);
        let (low, high) = ((from / step).floor(), (from + span) / step);
        let high = high.ceil();
        let decimals = (-step.log10().floor()).clamp(0.0, 50.0) as usize;
        let ticks = (0..=(high - low) as usize)
            .map(|i| (low + i as f64) * step)
            .map(|value| (value, format!("{value:.decimals$}")))
            .collect();
        Self { from: low * step, to: high * step, label: label.to_owned(), ticks }
    }

    /// As [`Axis::round`] from 0, but without rounding the upper end.
    pub(super) fn until(to: f64, count: usize, label: &str) -> Self {
        let mut axis = Self::round(0.0, to, count, label);
        axis.ticks.retain(|(value, _)| *value <= to);
        Self { to: to.max(1.0), ..axis }
    }

    fn place(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }
}

/// A chart in progress.
pub(super) struct Chart {
    x: Axis,
    y: Axis,
    body: String,
    title: String,
    description: String,
}

impl Chart {
    /// A frame with grid lines, ticks and axis labels.
    pub(super) fn new(title: &str, description: &str, x: Axis, y: Axis) -> Self {
        let mut chart =
            Self { x, y, body: String::new(), title: title.to_owned(), description: description.to_owned() };
        chart.frame();
        chart
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM)
    }

    fn frame(&mut self) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let mut body = String::new();
        for (value, text) in &self.y.ticks {
            let y = self.py(*value);
            let _ = write!(
                body,
                r#"<line class="grid" x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT - 6.0,
                y + 4.5,
                escape(text)
            );
        }
        for (value, text) in &self.x.ticks {
            let x = self.px(*value);
            let _ = write!(
                body,
                r#"<line class="axis" x1="{x:.1}" y1="{bottom}" x2="{x:.1}" y2="{:.1}"/><text class="tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                bottom + 4.0,
                bottom + 18.0,
                escape(text)
            );
        }
        let middle_x = (LEFT + right) / 2.0;
        let middle_y = (TOP + bottom) / 2.0;
        let _ = write!(
            body,
            r#"<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/><text class="label" x="{middle_x:.1}" y="{:.1}" text-anchor="middle">{}</text><text class="label" x="14" y="{middle_y:.1}" text-anchor="middle" transform="rotate(-90 14 {middle_y:.1})">{}</text>"#,
            HEIGHT - 8.0,
            escape(&self.x.label),
            escape(&self.y.label)
        );
        self.body.push_str(&body);
    }

    /// A line through `points`; `colour` is the name of a page colour, `dash` an SVG dash pattern or "".
    pub(super) fn line(&mut self, points: &[(f64, f64)], colour: &str, dash: &str) {
        let path = self.path(points.iter().copied());
        let _ = write!(
            self.body,
            r#"<path class="line" d="{path}" style="stroke:var(--{colour})" stroke-dasharray="{dash}"/>"#
        );
    }

    /// A thin, pale line through `points`.
    pub(super) fn faint_line(&mut self, points: &[(f64, f64)], colour: &str) {
        let path = self.path(points.iter().copied());
        let _ = write!(self.body, r#"<path class="line faint" d="{path}" style="stroke:var(--{colour})"/>"#);
    }

    /// Round marks at `points`, each with a tooltip.
    pub(super) fn marks(&mut self, points: &[(f64, f64, String)], colour: &str) {
        for (x, y, hint) in points {
            let _ = write!(
                self.body,
                r#"<circle cx="{:.1}" cy="{:.1}" r="4" style="fill:var(--{colour})"><title>{}</title></circle>"#,
                self.px(*x),
                self.py(*y),
                escape(hint)
            );
        }
    }

    /// A band between `low` and `high` at each x, as (x, low, high).
    pub(super) fn band(&mut self, points: &[(f64, f64, f64)], colour: &str) {
        let upper = points.iter().map(|(x, _, high)| (*x, *high));
        let lower = points.iter().rev().map(|(x, low, _)| (*x, *low));
        let path = self.path(upper.chain(lower));
        let _ = write!(self.body, r#"<path class="band" d="{path} Z" style="fill:var(--{colour})"/>"#);
    }

    /// A filled box with a tooltip, and a text inside if it fits.
    pub(super) fn bar(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, hint: &str, text: &str) {
        let (x0, x1) = (self.px(from.0), self.px(to.0));
        let (y0, y1) = (self.py(to.1), self.py(from.1));
        let (width, height) = ((x1 - x0).max(0.0), (y1 - y0).max(0.0));
        let _ = write!(
            self.body,
            r#"<rect x="{x0:.1}" y="{y0:.1}" width="{width:.1}" height="{height:.1}" style="fill:var(--{colour})"><title>{}</title></rect>"#,
            escape(hint)
        );
        if height >= 15.0 && width >= 8.0 * text.chars().count() as f64 {
            let _ = write!(
                self.body,
                r#"<text class="inside" x="{:.1}" y="{:.1}" text-anchor="middle" style="fill:var(--on-{colour})">{}</text>"#,
                (x0 + x1) / 2.0,
                (y0 + y1) / 2.0 + 4.5,
                escape(text)
            );
        }
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (i, (x, y)) in points.enumerate() {
            let verb = if i == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{:.1} {:.1} ", self.px(x), self.py(y));
        }
        path
    }

    /// A horizontal line across the chart.
    pub(super) fn rule(&mut self, y: f64) {
        let (y, right) = (self.py(y), WIDTH - RIGHT);
        let _ = write!(self.body, r#"<line class="rule" x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}"/>"#);
    }

    /// The `<svg>` element, labelled for screen readers.
    pub(super) fn finish(self) -> String {
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}"><desc>{}</desc>{}</svg>"#,
            escape(&self.title),
            escape(&self.description),
            self.body
        )
    }
}
