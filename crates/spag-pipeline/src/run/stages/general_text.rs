//! A round of a control: the model before is trained on general text alone.

use spag_io::Progress;
use spag_rewards::write_samples;
use spag_run::{Model, StageDone};

use crate::config::RunConfig;
use crate::error::Result;
use crate::run::context::RunContext;
use crate::run::stage::StageWork;
use crate::run::stage_folder::StageFolder;
use crate::run::training::{general_texts, train, write_provenance};

/// The stage that trains the model of `epoch` on so many rows.
pub(super) fn stage(config: &RunConfig, epoch: usize, rows: usize) -> StageWork {
    let model = Model::Spag(epoch);
    let before = model.before().unwrap_or(Model::Im);
    let stage =
        StageWork::making(model, Box::new(move |run, stage, progress| round(run, (before, rows), stage, progress)));
    let folder = StageFolder::new(config.run_dir.join(&stage.name), &stage.name);
    let mut inputs = vec![config.folder_of(before)];
    inputs.extend(config.sft.file.clone());
    let outputs = vec![folder.samples(), config.folder_of(model)];
    StageWork { inputs, outputs, parts: vec!["credit", "train"], ..stage }
}

fn round(
    run: RunContext<'_>,
    (current, rows): (Model, usize),
    stage: &StageFolder,
    progress: &mut dyn Progress,
) -> Result<StageDone> {
    let mut done = StageDone::default();
    let seed = run.seed(stage, "sft", &mut done);
    done.timed("credit", || {
        run.ranks.on_rank_0(|| {
            write_samples(stage.samples(), &general_texts(run, rows, seed)?)?;
            write_provenance(run, &[], stage)
        })
    })?;
    train(run, &run.config.train, current, stage, &mut done, progress)?;
    Ok(done)
}
