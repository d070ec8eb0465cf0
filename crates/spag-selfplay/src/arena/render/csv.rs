//! Results as CSV.

use csv::Writer;

use crate::arena::{ArenaTable, Elo, SeatResult};
use crate::error::{Error, Result};

const COLUMNS: &str = "player,opponent,seat,games,wins,decided,win_rate,win_rate_low,win_rate_high,ties,\
    broken_rules,failed,elo,elo_low,elo_high";

/// The results as CSV (RFC 4180) with a header and unrounded numbers.
///
/// A row is a player's result in a seat (its name, or `both`) against an opponent, or against all opponents
/// if the column is empty: first the players, then the pairings from both sides. Rates are shares of the decided games,
/// 0–1. A name that spreadsheets would take for a formula begins with an apostrophe. Ratings are in the players' rows of
/// both seats. The last row has no player: it holds the first seat of all games and its advantage.
///
/// # Errors
/// [`Error::Render`], which no table of this crate causes.
pub fn render_csv(table: &ArenaTable) -> Result<String> {
    let fail = |message: String| Error::Render { format: "CSV", message };
    let mut out = Writer::from_writer(Vec::new());
    out.write_record(COLUMNS.split(',')).map_err(|error| fail(error.to_string()))?;
    let mut rows = Vec::new();
    for player in &table.players {
        rows.push(row([&player.name, "", "both"], &player.both, Some(player.elo)));
        rows.extend(player.seats.iter().map(|(seat, result)| row([&player.name, "", seat.name()], result, None)));
    }
    for pairing in &table.pairings {
        let [one, other] = pairing.players.values();
        let sides = pairing.seats.iter().zip([[one, other], [other, one]]);
        rows.extend(sides.map(|((seat, result), [own, other])| row([own, other, seat.name()], result, None)));
    }
    let first = &table.first_seat;
    rows.push(row(["", "", first.seat.name()], &first.value, Some(table.edge.value)));
    for row in rows {
        out.write_record(&row).map_err(|error| fail(error.to_string()))?;
    }
    let bytes = out.into_inner().map_err(|error| fail(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| fail(error.to_string()))
}

fn row(who: [&str; 3], result: &SeatResult, elo: Option<Elo>) -> [String; 15] {
    let [player, opponent, seat] = who.map(plain_text);
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let SeatResult { win, games, ties, broken_rules, failed, .. } = result;
    [
        player,
        opponent,
        seat,
        games.to_string(),
        win.count.to_string(),
        win.total.to_string(),
        number(win.share),
        win.low.to_string(),
        win.high.to_string(),
        ties.to_string(),
        broken_rules.to_string(),
        failed.to_string(),
        number(elo.map(|elo| elo.points)),
        number(elo.map(|elo| elo.low)),
        number(elo.map(|elo| elo.high)),
    ]
}

/// Text that spreadsheets do not evaluate: what could start a formula gets an apostrophe (OWASP, "CSV Injection").
fn plain_text(text: &str) -> String {
    match text.trim_start().chars().next() {
        Some('=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠') => format!("'{text}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use spag_game::{PerSeat, taboo};

    use super::*;
    use crate::arena::table::tests::example;

    #[test]
    fn names_are_no_formulas() {
        let mut table = example(None);
        for name in ["@SUM(1+1)", "+1", "-2", "=cmd|'/C calc'!A0"] {
            table.players[0].name = name.to_owned();
            table.pairings[1].players = PerSeat::of(&taboo::LABELS, |_| name.to_owned());
            let text = render_csv(&table).unwrap();
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.unwrap()).collect();
            assert_eq!(rows[0][0], format!("'{name}"));
            assert!(rows.iter().all(|row| row.iter().take(3).all(|cell| !cell.starts_with(['@', '+', '-', '=']))));
        }
        assert_eq!(plain_text("im-2"), "im-2");
    }

    #[test]
    fn csv_quotes_names_and_has_a_row_for_each_side() {
        let table = example(None);
        let text = render_csv(&table).unwrap();
        assert!(text.contains("\n\"big, \"\"new\"\"\",,both,19,12,16,0.75,"), "{text}");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), 2 * 3 + 4 * 2 + 1);
        assert_eq!(&rows[0][0], "big, \"new\"");
        assert_eq!(rows[0][12].parse::<f64>().unwrap(), table.players[0].elo.points);
        // im against the other player, from both sides.
        let im: Vec<&str> = rows[8].iter().take(6).collect();
        assert_eq!(im, ["im", "big, \"new\"", "attacker", "10", "2", "8"]);
        let big: Vec<&str> = rows[9].iter().take(6).collect();
        assert_eq!(big, ["big, \"new\"", "im", "defender", "10", "6", "8"]);
        let last = rows.last().unwrap();
        assert_eq!((&last[0], &last[2], last[12].parse::<f64>().unwrap()), ("", "attacker", table.edge.value.points));
    }
}
