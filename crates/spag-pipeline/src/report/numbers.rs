//! Numbers as they are shown.

use spag_selfplay::{Change, Rate};

/// "61.2 [57.3, 65.0]", in per cent; a dash where there is nothing to divide by.
pub(super) fn rate(rate: Rate) -> String {
    match rate.share {
        Some(share) => format!("{:.1} [{:.1}, {:.1}]", 100.0 * share, 100.0 * rate.low, 100.0 * rate.high),
        None => "–".to_owned(),
    }
}

/// "61.2", in per cent.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| format!("{:.1}", 100.0 * share))
}

/// "+5.1 [−0.2, +10.3]", in points.
pub(super) fn change(change: Option<Change>) -> String {
    let signed = |points: f64| {
        let sign = if points < 0.0 { '−' } else { '+' };
        format!("{sign}{:.1}", points.abs())
    };
    change.map_or("–".to_owned(), |change| {
        format!("{} [{}, {}]", signed(change.points), signed(change.low), signed(change.high))
    })
}

/// "12.3"
pub(super) fn seconds(seconds: f64) -> String {
    format!("{seconds:.1}")
}
