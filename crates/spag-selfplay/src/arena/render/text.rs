//! Results as plain text.

use spag_game::Seat;

use crate::arena::{ArenaTable, Elo, SeatResult};
use crate::refusals::Refusals;
use crate::text_table::{signed, text_table};

/// The results as plain text: players, pairings, and the advantage of the first seat. Rates are in per cent.
pub fn render_text(table: &ArenaTable) -> String {
    let labels = table.settings.rules.labels();
    let [first, second] = labels.seats;
    let origin = match &table.settings.anchor {
        Some(name) => format!("{name} is 1500"),
        None => "their mean is 1500".to_owned(),
    };
    let broken = labels.broken_rule;
    let mut out = format!(
        "Elo ratings [95% interval]; {origin}, a tie is half a win\n\
         Win rates, % of decided games [95% Wilson interval]; {broken}\n\n"
    );
    let seats = labels.seats.map(|seat| format!("as {seat}"));
    let header = ["player", "Elo", "both seats", &seats[0], &seats[1], "games", "ties", "failed"];
    let players = table.players.iter().map(|player| {
        let Elo { points, low, high } = player.elo;
        let [one, other] = *player.seats.values();
        let mut row = vec![player.name.clone(), format!("{points:.0} [{low:.0}, {high:.0}]")];
        row.extend([player.both, one, other].map(|result| result.win.to_string()));
        row.extend([player.both.games, player.both.ties, player.both.failed].map(|count| count.to_string()));
        row
    });
    out.push_str(&text_table(&header, &players.collect::<Vec<_>>()));
    out.push('\n');
    let wins = labels.seats.map(|seat| format!("{seat} wins"));
    let pair = format!("{first} – {second}");
    let header = [&*pair, &wins[0], &wins[1], "games", "ties", "broken rules", "failed"];
    let pairings = table.pairings.iter().map(|pairing| {
        let [one, other] = *pairing.seats.values();
        let SeatResult { win, games, ties, broken_rules, failed, .. } = one;
        let mut row = vec![pairing.players.values().join(" – ")];
        row.extend([win, other.win].map(|rate| rate.to_string()));
        row.extend([games, ties, broken_rules, failed].map(|count| count.to_string()));
        row
    });
    out.push_str(&text_table(&header, &pairings.collect::<Vec<_>>()));
    if labels.has_refusals() {
        out.push_str(&format!("\nRefused utterances, % of each player's; games lost by them\n\n{}", refusals(table)));
    }
    let Elo { points, low, high } = table.edge.value;
    let SeatResult { win, games, ties, .. } = table.first_seat.value;
    let wins = match win.total {
        0 => "no game was decided".to_owned(),
        decided => format!("{} {win} % of {}", winning(first), counted(decided, "decided game")),
    };
    let tied = if ties > 0 { format!("; {ties} of {} tied", counted(games, "game")) } else { String::new() };
    let [points, low, high] = [points, low, high].map(|points| signed(points, 0));
    out.push_str(&format!(
        "\n  {}'s seat is worth {points} Elo points [{low}, {high}]; {wins}{tied}\n",
        capitalised(first)
    ));
    out
}

/// As in "attackers win" and "player 0 wins".
fn winning(seat: Seat) -> String {
    if seat.name().contains(' ') { format!("{seat} wins") } else { format!("{seat}s win") }
}

/// As in "The attacker" and "Player 0".
fn capitalised(seat: Seat) -> String {
    let phrase = seat.in_a_sentence();
    let mut rest = phrase.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// As in "1 game" and "2 games".
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Refused utterances of each player in each seat.
fn refusals(table: &ArenaTable) -> String {
    let seats = table.settings.rules.labels().seats;
    let mut header = vec!["player".to_owned()];
    header.extend(seats.into_iter().flat_map(|seat| [format!("as {seat}"), "games lost".to_owned()]));
    let rows = table.players.iter().map(|player| {
        let cells = player.seats.values().iter().filter_map(|result| result.refusals);
        let cells = cells.flat_map(|Refusals { refused, games_lost }| [refused.to_string(), games_lost.to_string()]);
        std::iter::once(player.name.clone()).chain(cells).collect()
    });
    text_table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::table::tests::example;
    use crate::rate::Rate;

    #[test]
    fn text_has_ratings_rates_and_aligned_columns() {
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
        let last = lines.last().unwrap();
        assert!(
            last.contains("attackers win 48.6 [") && last.ends_with("] % of 35 decided games; 4 of 39 games tied"),
            "{text}"
        );
        // Columns are aligned.
        assert_eq!(lines[3].find("both seats"), lines[4].find("75.0"), "{text}");
    }

    #[test]
    fn first_seat_is_told_of_by_decided_games() {
        let mut table = example(None);
        let mut last = |won, decided, ties| {
            let seat = &mut table.first_seat.value;
            (seat.win, seat.ties, seat.games) = (Rate::new(won, decided), ties, decided + ties);
            render_text(&table).lines().last().unwrap().split_once("; ").unwrap().1.to_owned()
        };
        assert_eq!(last(1, 1, 3), "attackers win 100.0 [20.7, 100.0] % of 1 decided game; 3 of 4 games tied");
        assert_eq!(last(0, 0, 2), "no game was decided; 2 of 2 games tied");
        assert_eq!(last(1, 2, 0), "attackers win 50.0 [9.5, 90.5] % of 2 decided games");
    }
}
