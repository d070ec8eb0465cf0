//! Benchmarks of the base model, the imitation model and the model of each epoch: that of the first seat, if an on-policy run has a
//! policy for each.

use std::path::{Path, PathBuf};

use spag_eval::{AskReasoning, AskSettings, ComparedModel, ComparedRun, Evaluation, ModelResults, ModelScores};
use spag_io::{Progress, PromptFormat, write_json_atomically};
use spag_model::checkpoint::load_config;
use spag_model::generate::MemoryBudget;
use spag_model::{Engine, EngineConfig};
use spag_run::{Model, StageDone, files};

use crate::config::{BenchmarkSettings, RunConfig, WholeFor};
use crate::error::{Error, Result};
use crate::run::context::{RunContext, StageProgress};
use crate::run::controls::finished_arms;
use crate::run::stage::{StageKind, StageWork};
use crate::run::stage_folder::StageFolder;

pub(super) fn stage(config: &RunConfig, settings: &BenchmarkSettings) -> StageWork {
    let stage = StageWork::measuring(files::BENCHMARKS, StageKind::EvaluateFromRecords, Box::new(benchmarks));
    let mut inputs: Vec<PathBuf> =
        scored(config, &config.models().collect::<Vec<_>>()).into_iter().map(|(_, folder)| folder).collect();
    inputs.extend((!spag_eval::is_built_in(&settings.tasks)).then(|| settings.tasks.clone()));
    StageWork { inputs, outputs: vec![config.run_dir.join(files::BENCHMARKS)], parts: vec!["score"], ..stage }
}

/// Scores all models on rank 0. Answers of an earlier call are kept.
fn benchmarks(run: RunContext<'_>, stage: &StageFolder, progress: &mut dyn Progress) -> Result<StageDone> {
    let mut done = StageDone::default();
    if let Some(settings) = &run.config.benchmarks {
        run.ranks.on_rank_0(|| {
            let arms = finished_arms(run.config)?;
            let mut results = evaluate_models(run, settings, &arms, &mut done, progress)?;
            let arms = results.split_off(results.len() - arms.len());
            if let Some(compared) = compared(run, &results, &arms) {
                write_json_atomically(stage.file(files::COMPARED), &compared)?;
            }
            let scores: Vec<ModelScores> = results.into_iter().map(|result| result.scores).collect();
            Ok(write_json_atomically(stage.file(files::SCORES), &scores)?)
        })?;
    }
    Ok(done)
}

/// The rows of the last model, of the base model and of the control arms, if there are some.
fn compared(run: RunContext<'_>, models: &[ModelResults], arms: &[ModelResults]) -> Option<ComparedRun> {
    let last = run.config.models().last()?;
    let (own, base) = (models.iter().find(|model| model.scores.name == last.name())?, models.first()?);
    let models = [own, base].into_iter().chain(arms).map(ComparedModel::new).collect();
    (!arms.is_empty()).then_some(ComparedRun { seed: run.config.seed, models })
}

/// The results of the run's models, and of those of its control arms.
fn evaluate_models(
    run: RunContext<'_>,
    settings: &BenchmarkSettings,
    arms: &[(String, PathBuf)],
    done: &mut StageDone,
    progress: &mut dyn Progress,
) -> Result<Vec<ModelResults>> {
    let mut progress = StageProgress { stage: files::BENCHMARKS, inner: progress };
    let evaluation = Evaluation::open(&run.config.run_dir.join(files::BENCHMARKS))?;
    let mut results: Vec<ModelResults> = Vec::new();
    let own = scored(run.config, run.made);
    for (name, model) in own.iter().chain(arms) {
        let limit = settings.limit.filter(|_| !is_whole(run.config, &settings.whole, (model, arms)));
        let (tasks, chat_template) = settings.load_tasks(limit, (model, &run.config.template.chat_template_kwargs))?;
        let asked = AskSettings { chat_template, ..ask_settings(run, settings, model)? };
        let mut open = evaluation.model(name, model, tasks, &asked)?;
        if open.missing() > 0 {
            done.timed("score", || {
                let checkpoint = run.load(model, settings.dtype)?;
                let memory = MemoryBudget::for_model(&checkpoint.model)?;
                let config = checkpoint.model.config();
                let running = EngineConfig::max_running_that_fit(config, open.max_length(), memory);
                let engine = EngineConfig::with_max_length(config, running, open.max_length(), memory);
                Ok::<_, Error>(open.ask(&mut Engine::from_checkpoint(checkpoint, engine)?, &mut progress)?)
            })?;
        }
        let mut result = open.finish()?;
        if let Some(first) = results.first() {
            result.compare_with(first);
        }
        results.push(result);
    }
    Ok(results)
}

/// Whether the model in a folder is scored on all rows in spite of a limit. Control arms are, if the last model is, with which they are
/// compared.
fn is_whole(config: &RunConfig, whole: &[WholeFor], (model, arms): (&Path, &[(String, PathBuf)])) -> bool {
    let is = |named| config.folder_of(named) == model;
    whole.iter().any(|whole| match whole {
        WholeFor::Base => is(Model::Base),
        WholeFor::Last => config.models().last().is_some_and(is) || arms.iter().any(|(_, arm)| arm == model),
    })
}

/// The models with their names, in the order of training. A base model that is an imitation model is one of them.
fn scored(config: &RunConfig, made: &[Model]) -> Vec<(String, PathBuf)> {
    let twice = config.imitation.source.is_none();
    let models = made.iter().filter(|model| !(twice && **model == Model::Im));
    models.map(|model| (model.name(), config.folder_of(*model))).collect()
}

fn ask_settings(run: RunContext<'_>, settings: &BenchmarkSettings, model: &Path) -> Result<AskSettings> {
    let device = run.config.device.open(run.ranks.env.local_rank)?.device().clone();
    let dtype = settings.dtype.resolve(&load_config(model)?, &device);
    let kind = if device.is_cpu() { "cpu" } else { "gpu" };
    let (bos, arithmetic) = (run.config.add_bos_token, format!("{dtype} on {kind}"));
    let contexts = if settings.apply_chat_template { PromptFormat::Chat } else { PromptFormat::Plain };
    let reasoning = AskReasoning::of(model, &run.config.template, &run.config.reasoning, contexts)?;
    Ok(AskSettings { bos, arithmetic, reasoning, ..AskSettings::default() })
}
