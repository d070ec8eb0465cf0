//! What the trained model is made from, by the records of its data and of the model before it.

use spag_io::Wordings;
use spag_run::Provenance;

use super::TrainJob;
use crate::error::Result;

/// The record of the trained model, and a warning if its data and the model before it have prompts in different wordings or
/// formats. Inputs without a record are left out.
pub(super) fn sources(job: &TrainJob) -> Result<(Provenance, Option<String>)> {
    let mut record = Provenance::default();
    // The wordings, each with the input that has them.
    let mut found: Vec<(Wordings, String)> = Vec::new();
    let mut add = |input: String, wordings: &[Wordings]| {
        for wordings in wordings {
            if found.iter().all(|(known, _)| !known.are_those_of(wordings)) {
                found.push((wordings.clone(), input.clone()));
            }
        }
    };
    for path in &job.train_data_path {
        if let Some(data) = Provenance::read_of(path)? {
            add(path.display().to_string(), &data.wordings);
            record.extend(data);
        }
    }
    if let Some(model) = Provenance::read_of(&job.model_name_or_path)? {
        add(format!("the model {}", job.model_name_or_path.display()), &model.wordings);
        let wordings = if record.wordings.is_empty() { model.wordings } else { Vec::new() };
        record.extend(Provenance { wordings, games: model.games });
    }
    let uses: Vec<String> = found.iter().map(|(wordings, input)| format!("{input} has those of {wordings}")).collect();
    let warning = (found.len() > 1).then(|| format!("warning: prompts in different wordings: {}", uses.join(", ")));
    Ok((record, warning))
}
