//! The scores of all models as a document.

use spag_run::document::{Document, Part, Section, Table};

use super::radar::radar;
use super::table::{Rows, cut_notes, paired_table, reasoning_table, scores_table};
use crate::results::ModelScores;

/// The scores as a document of their own.
pub fn scores_document(models: &[ModelScores]) -> Document {
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    Document {
        title: "Evaluation".to_owned(),
        about: names.join(", "),
        notes: Vec::new(),
        sections: vec![Section { heading: "Scores".to_owned(), parts: scores_parts(models) }],
        without_script: "results.json in its folder has the same numbers.",
    }
}

/// The radar plot and the tables, as a part of a document.
pub fn scores_parts(models: &[ModelScores]) -> Vec<Part> {
    let has_groups = models.iter().flat_map(|model| &model.tasks).any(|task| task.group.is_some());
    let of_groups = || Table { title: "The tasks of each group".to_owned(), ..scores_table(models, Rows::All) };
    let mut parts: Vec<Part> = radar(models).map(|chart| Part::Charts(vec![chart])).into_iter().collect();
    parts.push(Part::Table(scores_table(models, Rows::Groups)));
    parts
        .extend([reasoning_table(models), paired_table(models)].into_iter().filter_map(Table::filled).map(Part::Table));
    parts.extend(has_groups.then(|| Part::Folded(of_groups())));
    parts.extend(cut_notes(models).map(|note| Part::Text(format!("{note}."))));
    parts
}
