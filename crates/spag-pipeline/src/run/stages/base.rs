//! Checks that the base model can be loaded and the benchmarks' data read, and writes a note of the model's path. The model is not
//! copied.

use spag_io::write_atomically;
use spag_run::{Model, StageDone};

use crate::config::RunConfig;
use crate::error::Result;
use crate::run::context::RunContext;
use crate::run::stage::StageWork;
use crate::run::stage_folder::StageFolder;

/// The note of the model's path.
const NOTE: &str = "where.txt";

pub(super) fn stage(config: &RunConfig) -> StageWork {
    let stage = StageWork::making(Model::Base, Box::new(|run, stage, _| base(run, stage)));
    let note = config.run_dir.join(&stage.name).join(NOTE);
    StageWork { inputs: vec![config.base_model.clone()], outputs: vec![note], ..stage }
}

fn base(run: RunContext<'_>, stage: &StageFolder) -> Result<StageDone> {
    let model = &run.config.base_model;
    run.ranks.on_rank_0(|| {
        run.load(model, run.config.self_play.dtype)?;
        // Before hours of work, not after them.
        if let Some(settings) = &run.config.benchmarks {
            let limit = settings.limit.filter(|_| settings.whole.is_empty());
            settings.load_tasks(limit, (model, &run.config.template.chat_template_kwargs))?;
        }
        let note = format!("The base model of this run is {}; inputs.json has its fingerprint.\n", model.display());
        Ok(write_atomically(stage.file(NOTE), note)?)
    })?;
    Ok(StageDone::default())
}
