//! The tables of a report, for its text and for its document.

use spag_eval::Comparison;
use spag_game::{Labels, UtteranceKind};
use spag_io::escape;
use spag_run::document::Table;
use spag_selfplay::{Change, Rate, ReasoningStats, Refusals, arena, number_or_dash};

use super::data::{GameReport, HeldOut, ImitationPart, MatchReport, Report, StageSeconds};
use super::rounds::{Round, RoundGames};
use crate::config::ControlArm;
use crate::play_stats::PlayStats;

/// A change in points, or a dash.
pub(super) fn change(change: Option<Change>) -> String {
    change.map_or("–".to_owned(), |change| change.to_string())
}

/// What a comparison with the control arms says of the games, a sentence each.
pub(super) fn conclusions(comparison: &Comparison) -> Vec<String> {
    comparison.conclusions(&ControlArm::ALL.map(ControlArm::name))
}

/// As in "61.2", in per cent, or a dash.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| format!("{:.1}", 100.0 * share))
}

/// The text with its first letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// All sets of games of the report with the names of the players, evaluation first.
pub(super) fn pairings(report: &GameReport) -> Vec<(String, &PlayStats)> {
    let mut all = Vec::new();
    if report.baseline.games > 0 {
        all.push(("IM – IM".to_owned(), &report.baseline));
    }
    for game in &report.matches {
        let [first, second] = game.seats.values();
        all.push((format!("{} – IM", game.name), first));
        all.push((format!("IM – {}", game.name), second));
    }
    all.extend(report.training_games.iter().map(|named| (format!("{} self-play", named.name), &named.play)));
    all
}

/// Whether the small world tells which clues are true.
pub(super) fn has_clues(report: &GameReport) -> bool {
    pairings(report).iter().any(|(_, play)| play.true_clues.total > 0)
}

/// Win rates against IM, if they were measured.
pub(super) fn win_rates(report: &GameReport) -> Option<Table> {
    let broken = report.labels().broken_rule;
    let title = format!("Win rates against IM, % of decided games [95% Wilson interval]; {broken}");
    win_table(report, title, &report.baseline, &report.matches)
}

/// The same on words that were held out, if some were.
pub(super) fn held_out(report: &GameReport) -> Option<Table> {
    let HeldOut { words, baseline, matches } = report.held_out.as_ref()?;
    let title = format!("The same on {words} words that no training game was played on");
    win_table(report, title, baseline, matches)
}

/// The baseline, then each match.
fn win_table(report: &GameReport, title: String, baseline: &PlayStats, matches: &[MatchReport]) -> Option<Table> {
    if report.baseline.games == 0 {
        return None;
    }
    let dash = "–".to_owned();
    let seats = report.labels().seats.into_iter().flat_map(|seat| [format!("as {seat}"), "against IM-IM".to_owned()]);
    let columns = ["model", "both seats"].map(str::to_owned).into_iter().chain(seats);
    let mut itself = vec!["IM itself".to_owned(), dash.clone()];
    itself.extend(baseline.win.values().iter().flat_map(|rate| [rate.to_string(), dash.clone()]));
    let row = |game: &MatchReport| {
        let mut row = vec![game.name.clone(), game.win.to_string()];
        row.extend(game.change.iter().flat_map(|(seat, of)| [game.win_as(seat).to_string(), change(*of)]));
        row
    };
    Some(Table::new(title, columns, std::iter::once(itself).chain(matches.iter().map(row)).collect()))
}

/// The ratings in short, if all models were rated.
pub(super) fn ratings(report: &GameReport) -> Option<Table> {
    let row = |player: &arena::Standing| {
        let arena::Elo { points, low, high } = player.elo;
        vec![player.name.clone(), format!("{points:.0} [{low:.0}, {high:.0}]"), player.both.games.to_string()]
    };
    let rows = report.ratings.as_ref()?.players.iter().map(row).collect();
    Some(Table::new("Elo ratings [95% interval]; a tie is half a win", ["model", "Elo", "games"], rows))
}

/// How games ended. Clues have a column in the small world alone.
pub(super) fn endings(report: &GameReport) -> Table {
    let [first, second] = report.labels().seats;
    let has_clues = has_clues(report);
    let clues = if has_clues { format!("; true clues, % of the {first}s' clues") } else { String::new() };
    let mut columns = vec![format!("{first} – {second}"), "games".to_owned()];
    columns.extend(report.endings().iter().map(|ending| ending.title.to_owned()));
    columns.push("turns".to_owned());
    columns.extend(has_clues.then(|| "true clues".to_owned()));
    let row = |(name, play): (String, &PlayStats)| {
        let mut row = vec![escape(&name).into_owned(), play.games.to_string()];
        row.extend(play.endings.iter().map(|(_, rate)| percent(rate.share)));
        row.push(format!("{:.2}", play.mean_turns));
        row.extend(has_clues.then(|| percent(play.true_clues.share)));
        row
    };
    let title = format!("How games ended, % of games; turns up to the end{clues}");
    Table::new(title, columns, pairings(report).into_iter().map(row).collect())
}

/// What is to be known of clues, if the small world tells which are true.
pub(super) fn clue_note(report: &GameReport) -> Option<String> {
    let [first, _] = report.labels().seats;
    let note =
        format!("The rules do not forbid untrue clues: where their share grows, part of the {first}'s gain is lying.");
    has_clues(report).then_some(note)
}

/// Refused utterances; `None` for a game that refuses nothing.
pub(super) fn refusals(report: &GameReport) -> Option<Table> {
    let [first, second] = report.labels().seats;
    let seats = report.labels().seats.into_iter().flat_map(|seat| [seat.to_string(), "games lost".to_owned()]);
    let row = |(name, play): (String, &PlayStats)| {
        let seats = play.refusals?;
        let cells = seats.values().iter();
        let cells = cells.flat_map(|Refusals { refused, games_lost }| [refused.to_string(), games_lost.to_string()]);
        Some(std::iter::once(escape(&name).into_owned()).chain(cells).collect())
    };
    let columns = std::iter::once(format!("{first} – {second}")).chain(seats);
    let rows = pairings(report).into_iter().filter_map(row).collect();
    Table::new("Refused utterances, % of each seat's [95%]; games lost by them", columns, rows).filled()
}

/// What each source of the imitation gave, if it is known.
pub(super) fn sources(report: &GameReport) -> Option<Table> {
    let row = |part: &ImitationPart| {
        let share = (part.games > 0).then(|| part.won as f64 / part.games as f64);
        let mut row = vec![escape(&part.source).into_owned(), part.games.to_string(), part.won.to_string()];
        row.extend([percent(share), part.samples.to_string(), part.used.to_string()]);
        row
    };
    let title = "Sources of the imitation; won: games without a broken rule, in % of all";
    let columns = ["source", "games", "won", "won, %", "samples", "trained on"];
    Table::new(title, columns, report.imitation.iter().map(row).collect()).filled()
}

/// The games that each model was trained on: the columns are those that mean something in games with these labels.
pub(super) fn rounds(labels: &Labels, rounds: &[Round]) -> Table {
    let [first, second] = labels.seats;
    let mut columns = vec!["trained on".to_owned(), "games".to_owned(), format!("{first} : {second}")];
    columns.extend(shares(labels).map(|(name, _)| name.to_owned()));
    columns.extend(labels.seats.map(|seat| format!("words, {seat}")));
    columns.push("distinct-1, -2".to_owned());
    let thinks = rounds.iter().filter_map(|round| round.games.as_ref()).any(|games| games.reasoning.is_some());
    if thinks {
        columns.push("reasoning: characters, empty, forced, unfinished".to_owned());
    }
    let row = |round: &Round| {
        let games = round.games.as_ref()?;
        let mut row = vec![round.name.clone(), games.games.to_string()];
        row.push(games.wins.values().map(|wins| wins.count.to_string()).join(" : "));
        row.extend(shares(labels).map(|(_, of)| percent(of(games).share)));
        row.extend(games.words.values().map(|words| number_or_dash(words, 1)));
        row.push(format!("{}, {}", number_or_dash(games.distinct_1, 3), number_or_dash(games.distinct_2, 3)));
        if thinks {
            let ReasoningStats { characters, empty, forced, unfinished } = games.reasoning.unwrap_or_default();
            let shares = [empty, forced, unfinished].map(|share| percent(Some(share)));
            row.push(format!("{characters:.0}: {}", shares.join(", ")));
        }
        Some(row)
    };
    let title = "Games that each model was trained on: wins, shares in %, and words of an utterance";
    Table::new(title, columns, rounds.iter().filter_map(row).collect())
}

/// A share of games or utterances.
type Share = fn(&RoundGames) -> Rate;

/// The shares that mean something in games with these labels.
fn shares(labels: &Labels) -> impl Iterator<Item = (&'static str, Share)> {
    let (has_guesses, is_talk) = (!labels.guesses.is_empty(), labels.utterances == UtteranceKind::Sentences);
    let all: [(&str, bool, Share); 4] = [
        ("ties", true, |games| games.ties),
        ("early guesses", has_guesses, |games| games.early_guesses),
        ("empty", true, |games| games.empty_utterances),
        ("repeated", is_talk, |games| games.repeated_utterances),
    ];
    all.into_iter().filter(|(_, is_meant, _)| *is_meant).map(|(name, _, of)| (name, of))
}

/// The trainings, if there were some.
pub(super) fn trainings(rounds: &[Round]) -> Option<Table> {
    let row = |round: &Round| {
        let training = round.training.as_ref()?;
        let mut row = vec![round.name.clone(), training.steps.to_string()];
        row.extend([training.loss, training.kl].map(|value| number_or_dash(value, 4)));
        row.extend(
            [training.importance_ratio_mean, training.importance_ratio_max].map(|value| number_or_dash(value, 3)),
        );
        row.extend([percent(training.clipped_fraction), number_or_dash(training.grad_norm_max, 2)]);
        Some(row)
    };
    let title = "Training; loss and KL of the last quarter of the steps, clipped tokens in %";
    let columns =
        ["training", "steps", "loss", "KL", "ratio, mean", "ratio, largest", "clipped", "gradient norm, largest"];
    Table::new(title, columns, rounds.iter().filter_map(row).collect()).filled()
}

/// The seconds of each stage, and of all together.
pub(super) fn times(report: &Report) -> Table {
    let row = |stage: &StageSeconds| vec![stage.stage.clone(), format!("{:.1}", stage.total()), stage.describe()];
    let mut rows: Vec<_> = report.stages.iter().map(row).collect();
    // The sum of nothing is −0.
    let total = report.stages.iter().map(|stage| stage.total()).sum::<f64>() + 0.0;
    rows.push(vec!["together".to_owned(), format!("{total:.1}"), String::new()]);
    Table::new("Seconds per stage", ["stage", "seconds", "of which"], rows)
}

/// The files of the run.
pub(super) fn files(report: &Report) -> Table {
    pairs("Files in the run folder", ["path", "what it is"], &report.files)
}

/// The settings of the run.
pub(super) fn settings(report: &Report) -> Table {
    pairs("Settings", ["setting", "value"], &report.settings)
}

fn pairs(title: &str, columns: [&str; 2], rows: &[(String, String)]) -> Table {
    Table::new(title, columns, rows.iter().map(|(first, second)| vec![first.clone(), second.clone()]).collect())
}

#[cfg(test)]
mod tests {
    use spag_game::taboo;

    use super::super::rounds::RoundTraining;
    use super::super::rounds::tests::round;
    use super::{rounds, trainings};

    #[test]
    fn rows_have_a_cell_for_each_column() {
        let mut whole = round();
        whole.training = Some(RoundTraining {
            steps: 7,
            loss: Some(-0.5),
            kl: Some(0.25),
            importance_ratio_mean: None,
            importance_ratio_max: None,
            clipped_fraction: Some(0.125),
            grad_norm_max: Some(1.0),
        });
        let games = rounds(&taboo::LABELS, &[whole.clone()]);
        assert_eq!(games.rows[0].join("|"), "SPAG-2|100|50 : 40|10.0|1.0|1.0|1.0|6.0|–|0.500, 0.750");
        let training = trainings(&[whole, round()]).unwrap();
        assert_eq!(training.rows[0].join("|"), "SPAG-2|7|-0.5000|0.2500|–|–|12.5|1.00");
        assert_eq!((games.rows[0].len(), training.rows[0].len()), (games.columns.len(), training.columns.len()));
        assert!(training.rows.len() == 1 && trainings(&[round()]).is_none());
    }
}
