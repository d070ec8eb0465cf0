//! Results for readers.

use unicode_width::UnicodeWidthStr;

use crate::arena::{ArenaTable, Elo, SeatResult};
use crate::stats::Rate;

/// The results as plain text: the players, the pairings, and what the seat is worth. Rates in per cent.
pub fn render_text(table: &ArenaTable) -> String {
    let origin = match &table.settings.anchor {
        Some(name) => format!("{name} is 1500"),
        None => "their mean is 1500".to_owned(),
    };
    let mut out = format!(
        "Elo ratings [95% interval]; {origin}, a tie is half a win\n\
         Win rates, % of decided games [95% Wilson interval]; a broken rule is the attacker's loss\n\n"
    );
    columns(&players(table), &mut out);
    out.push('\n');
    columns(&pairings(table), &mut out);
    let Elo { points, low, high } = table.attacker_edge;
    out.push_str(&format!(
        "\n  The attacker's seat is worth {} Elo points [{}, {}]; attackers win {} of {} games\n",
        signed(points),
        signed(low),
        signed(high),
        rate(table.attackers.win),
        table.attackers.games,
    ));
    out
}

fn players(table: &ArenaTable) -> Vec<Vec<String>> {
    let mut rows =
        vec![cells(["player", "Elo", "both seats", "as attacker", "as defender", "games", "ties", "failed"])];
    rows.extend(table.players.iter().map(|player| {
        let Elo { points, low, high } = player.elo;
        let SeatResult { games, ties, failed, .. } = player.both;
        vec![
            player.name.clone(),
            format!("{points:.0} [{low:.0}, {high:.0}]"),
            rate(player.both.win),
            rate(player.as_attacker.win),
            rate(player.as_defender.win),
            games.to_string(),
            ties.to_string(),
            failed.to_string(),
        ]
    }));
    rows
}

fn pairings(table: &ArenaTable) -> Vec<Vec<String>> {
    let heads = ["attacker – defender", "attacker wins", "defender wins", "games", "ties", "broken rules", "failed"];
    let mut rows = vec![cells(heads)];
    rows.extend(table.pairings.iter().map(|pairing| {
        let SeatResult { win, games, ties, broken_rules, failed } = pairing.as_attacker;
        let mut row =
            vec![format!("{} – {}", pairing.attacker, pairing.defender), rate(win), rate(pairing.as_defender.win)];
        row.extend([games, ties, broken_rules, failed].map(|count| count.to_string()));
        row
    }));
    rows
}

/// "61.2 [57.3, 65.0]", in per cent; a dash where no game was decided.
fn rate(rate: Rate) -> String {
    match rate.share {
        Some(share) => format!("{:.1} [{:.1}, {:.1}]", 100.0 * share, 100.0 * rate.low, 100.0 * rate.high),
        None => "–".to_owned(),
    }
}

/// "+35", "−4", and "+0" for what rounds to nothing.
fn signed(points: f64) -> String {
    match points.round() < 0.0 {
        true => format!("−{:.0}", points.abs()),
        false => format!("+{:.0}", points.abs()),
    }
}

fn cells<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// Columns as wide on a terminal as their widest cell, two blanks apart, all flush left.
fn columns(rows: &[Vec<String>], out: &mut String) {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str("  ");
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width()));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::table::tests::example;

    #[test]
    fn the_table_as_it_is_read() {
        let table = example(Some("im"));
        let text = render_text(&table);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("im is 1500"), "{text}");
        let rating = format!("{:.0} [", table.players[0].elo.points);
        assert!(lines[4].starts_with("  big, \"new\"  ") && lines[4].contains(&rating), "{text}");
        assert!(lines[4].contains("75.0 [50.5, 89.8]"), "{text}");
        assert!(lines[5].starts_with("  im ") && lines[5].contains("1500 [1500, 1500]"), "{text}");
        let found = lines.iter().find(|line| line.starts_with("  im – big, \"new\" ")).unwrap();
        assert!(found.contains("25.0 [") && found.contains("75.0 ["), "{found}");
        assert!(lines.last().unwrap().contains("48.6 [") && lines.last().unwrap().contains("39 games"), "{text}");
        // Cells of a column begin below each other.
        assert_eq!(lines[3].find("both seats"), lines[4].find("75.0"), "{text}");
    }

    #[test]
    fn signs_and_missing_rates() {
        assert_eq!([signed(3.4), signed(-3.6), signed(-0.2)], ["+3", "−4", "+0"]);
        assert_eq!(rate(Rate::new(0, 0)), "–");
    }
}
