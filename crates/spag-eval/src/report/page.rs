//! The page with the scores of all models.

use super::radar::radar;
use super::table::{PAIRED_TITLE, Rows, cells, paired_cells};
use crate::html::{escape, page, table};
use crate::results::ModelScores;

/// The report as one HTML page without scripts, fonts or external links. Texts of others are escaped.
pub fn render_page(models: &[ModelScores]) -> String {
    let names: Vec<String> = models.iter().map(|model| escape(&model.name)).collect();
    let main = format!(
        r#"<header>
<h1>Evaluation</h1>
<p class="soft">{}</p>
</header>
<section aria-labelledby="scores"><h2 id="scores">Scores</h2>{}</section>"#,
        names.join(", "),
        render_section(models)
    );
    page("Evaluation", &main)
}

/// The radar plot and the tables, as part of a page.
pub fn render_section(models: &[ModelScores]) -> String {
    let plot = radar(models)
        .map(|plot| format!(r#"<div class="charts" style="margin-bottom:16px">{plot}</div>"#))
        .unwrap_or_default();
    let of = |caption: &str, which: Rows| {
        let (head, rows) = cells(models, which);
        table(caption, &head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
    };
    let has_groups = models.iter().flat_map(|model| &model.tasks).any(|task| task.group.is_some());
    let caption = "Scores, % of rows [95% interval] (perplexities as they are); chance is the share that guessing has";
    let mut out = plot + &of(caption, Rows::Groups);
    let (head, rows) = paired_cells(models);
    if !rows.is_empty() {
        out.push_str(&table(PAIRED_TITLE, &head, &rows));
    }
    if has_groups {
        out.push_str(&format!(
            "<details><summary>The tasks of each group</summary>{}</details>",
            of("All tasks", Rows::All)
        ));
    }
    for model in models.iter().filter(|model| model.cut > 0) {
        out.push_str(&format!(
            "<p>{}: {} rows were longer than the model sees; their prompts lost their beginning.</p>",
            escape(&model.name),
            model.cut
        ));
    }
    out
}
