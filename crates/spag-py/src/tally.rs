//! Counts of games.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spag_game::Tally;

use crate::config::{GameOptions, keywords};
use crate::judge::{Judged, judged};

/// Judge episodes and count how they ended.
///
/// `wins` counts games that a seat won, also since the other broke a rule, and `rewarded_wins` those won by the rules. `win_rates` are
/// shares of decided games, None if there are none. `mean_turns` is half the mean number of utterances up to the deciding one.
#[pyfunction]
#[pyo3(signature = (episodes, **config), text_signature = "(episodes, *, judge='paper', game_data=None)")]
pub(crate) fn tally<'py>(
    py: Python<'py>,
    episodes: &Bound<'py, PyAny>,
    config: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options: GameOptions = keywords("tally", config)?;
    let Judged { labels, games } = judged(py, episodes, &options)?;
    let mut tally = Tally::new(labels);
    games.iter().for_each(|(episode, verdict)| tally.add_game(episode, verdict));
    counts(py, &tally)
}

fn counts<'py>(py: Python<'py>, tally: &Tally) -> PyResult<Bound<'py, PyDict>> {
    let labels = tally.labels();
    let of_endings = PyDict::new(py);
    for ending in labels.endings {
        of_endings.set_item(ending.name, tally.ended(*ending))?;
    }
    let of_outcomes = PyDict::new(py);
    for outcome in labels.outcomes {
        of_outcomes.set_item(*outcome, tally.with_outcome(outcome))?;
    }
    let [wins, rewarded_wins, win_rates, refused] = [(); 4].map(|()| PyDict::new(py));
    let decided = tally.decided();
    for seat in labels.seats {
        let name = seat.name();
        wins.set_item(name, tally.wins(seat))?;
        rewarded_wins.set_item(name, tally.rewarded_wins(seat))?;
        win_rates.set_item(name, (decided > 0).then(|| tally.wins(seat) as f64 / decided as f64))?;
        refused.set_item(name, tally.refused(seat))?;
    }
    let counts = PyDict::new(py);
    for (key, count) in [
        ("games", tally.games()),
        ("decided", decided),
        ("ties", tally.ties()),
        ("broken_rules", tally.broken_rules()),
        ("utterances", tally.utterances()),
    ] {
        counts.set_item(key, count)?;
    }
    counts.set_item("mean_turns", tally.mean_turns())?;
    for (key, of) in [
        ("outcomes", of_outcomes),
        ("endings", of_endings),
        ("wins", wins),
        ("rewarded_wins", rewarded_wins),
        ("win_rates", win_rates),
        ("refused", refused),
    ] {
        counts.set_item(key, of)?;
    }
    Ok(counts)
}
