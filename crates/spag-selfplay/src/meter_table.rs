//! The table of models in one game, compared with perfect play.

use crate::game_meter::GameMeter;
use crate::solved_meter::SeatResults;
use crate::text_table::number_or_dash;

const KUHN_TITLE: &str = "Exploitability: chips a round that a perfect opponent wins, the mean of both seats (0 is an \
                          equilibrium); its mean reward in a match; answers that are no legal action, %";
const KUHN_COLUMNS: [&str; 4] = ["model", "exploitability", "opponent's match", "no legal action"];
const SOLVED_TITLE: &str = "Against perfect play, %: the probability of moves that keep the value of a position, and of any \
                            legal move doing so; answers that are no legal action; games against a perfect player: won – \
                            drawn – lost – lost by refused actions";
const SOLVED_COLUMNS: [&str; 6] = ["model", "best moves", "by chance", "no legal action", "as player 0", "as player 1"];

/// Measures of models in one game, for text and pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterTable {
    /// What the columns are.
    pub title: &'static str,
    /// The headers.
    pub columns: &'static [&'static str],
    /// A row a model.
    pub rows: Vec<Vec<String>>,
}

impl MeterTable {
    /// The table of named models; `None` without models.
    pub fn of<'a>(measures: impl IntoIterator<Item = (&'a str, &'a GameMeter)>) -> Option<Self> {
        let mut measures = measures.into_iter().peekable();
        let (title, columns): (_, &[&str]) = match measures.peek()?.1 {
            GameMeter::Kuhn(_) => (KUHN_TITLE, &KUHN_COLUMNS),
            GameMeter::Solved(_) => (SOLVED_TITLE, &SOLVED_COLUMNS),
        };
        Some(Self { title, columns, rows: measures.map(|(model, measure)| row(model, measure)).collect() })
    }
}

fn row(model: &str, measure: &GameMeter) -> Vec<String> {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let mut row = vec![model.to_owned()];
    match measure {
        GameMeter::Kuhn(kuhn) => {
            row.extend([format!("{:.4}", kuhn.exploitability), number_or_dash(kuhn.match_value, 4)]);
            row.push(percent(kuhn.invalid));
        }
        GameMeter::Solved(solved) => {
            row.extend([solved.optimal, solved.optimal_by_chance, solved.invalid].map(percent));
            row.extend(solved.against_perfect.map(results));
        }
    }
    row
}

/// As in "0 – 40 – 55 – 5".
fn results(SeatResults { won, drawn, lost, refused }: SeatResults) -> String {
    [won, drawn, lost, refused].map(|count| count.to_string()).join(" – ")
}
