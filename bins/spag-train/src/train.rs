//! The run of `spag-train`.

use std::ffi::OsString;

use spag_dist::LaunchEnv;
use spag_io::Silent;
use spag_model::checkpoint::load_config;
use spag_train::{Start, TrainJob, TrainSummary};

use crate::args::TrainArgs;
use spag_cli::{
    Result, TerminalProgress, exit, fit_max_length,
    flags::{self, Notes, Task},
    threads,
};

/// Runs the program on `args`, which start with its name.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let (args, notes) = flags::parse_reference::<TrainArgs>(Task::Training, args)?;
    let env = LaunchEnv::detect()?;
    threads::start()?;
    let first = env.rank == 0;
    let (mut job, notes) = job(args, notes)?;
    // The notes are the same on all ranks.
    if first {
        notes.print();
    }
    if env.restarts > 0 && job.start != Start::Latest {
        // After a restart by the launcher, which repeats the first command.
        job.start = Start::Latest;
    }
    if !first {
        return Ok(spag_train::run(&job, &mut Silent).map(drop)?);
    }
    let summary = spag_train::run(&job, &mut TerminalProgress::default())?;
    exit::say(summary_text(&summary, &job))
}

/// The job that the flags describe; adds flags without effect to the notes.
fn job(args: TrainArgs, mut notes: Notes) -> Result<(TrainJob, Notes)> {
    // The reference's scripts pass an empty name for no model.
    let mut reference = args.ref_model_name_or_path.clone().filter(|path| !path.as_os_str().is_empty());
    if reference.is_some() && !spag_train::loss::build(&args.config).needs_reference() {
        notes.add("ref_model_name_or_path", "the loss has no KL term");
        reference = None;
    }
    let (logging_dir, others) = args.events();
    for name in others {
        notes.add(&format!("report_to {name}"), "metrics go to metrics.jsonl and TensorBoard events");
    }
    let start = args.start()?;
    let positions = load_config(&args.model_name_or_path)?.architecture.max_position_embeddings;
    let max_length = fit_max_length(args.config.max_length, positions, &args.model_name_or_path);
    let job = TrainJob {
        config: args.config(max_length),
        model_name_or_path: args.model_name_or_path,
        adapter: args.adapter,
        ref_model_name_or_path: reference,
        train_data_path: args.train_data_path,
        eval_data_path: args.job.eval_data_path,
        output_dir: args.output_dir,
        model_dir: None,
        deepspeed: args.job.deepspeed,
        zero_stage: args.job.zero_stage,
        shard_within: args.job.shard_within.unwrap_or_default(),
        offload_param: args.job.offload_param.unwrap_or_default(),
        logging_dir,
        add_bos_token: args.bos.rule(),
        template: args.template,
        device: args.device.device,
        offload_optimizer: args.job.offload_optimizer,
        start,
    };
    Ok((job, notes))
}

/// The result in a few lines.
fn summary_text(summary: &TrainSummary, job: &TrainJob) -> String {
    let before = match summary.resumed_at {
        0 => String::new(),
        step => format!(" ({step} of them before this start)"),
    };
    let mut text = format!(
        "{} steps{before}, {} tokens; {:.1} s; loss {:.4} -> {:.4}\nmodel and metrics.jsonl in {}",
        summary.steps,
        summary.tokens,
        summary.seconds,
        summary.first_loss,
        summary.last_loss,
        job.output_dir.display(),
    );
    if !summary.dropped.is_empty() {
        let rows = summary.dropped.iter().take(8).map(usize::to_string).collect::<Vec<_>>().join(", ");
        let more = if summary.dropped.len() > 8 { ", …" } else { "" };
        let count = summary.dropped.len();
        text += &format!(
            "\nleft out: {count} samples whose target does not fit into --max_length (rows, from 0: {rows}{more})"
        );
    }
    if summary.skipped_steps > 0 {
        text += &format!("\nskipped: {} steps whose loss or gradients were not finite", summary.skipped_steps);
    }
    text
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
