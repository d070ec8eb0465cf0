//! Players behind endpoints: those that are imitated, and servers of the current model that play its games.

use std::process::{Command, Stdio};

use spag_io::{Progress, quote};
use spag_run::Model;
use spag_selfplay::{
    AnyPlayer, EndpointConfig, EndpointKeys, EndpointPlayer, EndpointSpec, PlayerSpec, SamplingSettings, TopK,
};

use super::context::RunContext;
use crate::config::{RunConfig, endpoint};
use crate::error::{Error, Result};

/// What stands for the name of the current model in `self_play.player`.
const STAGE: &str = "{stage}";

/// Opens an endpoint. The key is of the environment.
pub(super) fn open_endpoint(endpoint: EndpointSpec, config: EndpointConfig) -> Result<AnyPlayer> {
    let keys = EndpointKeys::from_env([&PlayerSpec::Endpoint(endpoint.clone())])?;
    let config = EndpointConfig { key: keys.of(&endpoint), ..config };
    Ok(AnyPlayer::Endpoint(Box::new(EndpointPlayer::new(endpoint, config)?)))
}

/// Servers of the current model as its player, after the command of `self_play.prepare`, which may start or reload them.
pub(super) fn served(
    run: RunContext<'_>,
    text: &str,
    current: Model,
    progress: &mut dyn Progress,
) -> Result<AnyPlayer> {
    let settings = &run.config.self_play;
    run.ranks.on_rank_0(|| match settings.prepare.split_first() {
        Some((program, arguments)) => {
            progress.message(&format!("{}: {}", current.stage(), quote(&settings.prepare.join(" "))));
            prepare(run, program, arguments, current)
        }
        None => Ok(()),
    })?;
    let config = endpoint_config(&settings.sampling, run.config);
    let player = open_endpoint(endpoint("self_play.player", &text.replace(STAGE, &current.stage()))?, config)?;
    Ok(if settings.constrain_actions { player.with_held_actions()? } else { player })
}

/// How an endpoint plays with the lengths and requests of `[self_play]`. The `top_k` of a run file may be a default, so no server
/// that may refuse it is asked for it.
pub(super) fn endpoint_config(sampling: &SamplingSettings, config: &RunConfig) -> EndpointConfig {
    let RunConfig { self_play, template, reasoning, prompt_format, .. } = config;
    let config = EndpointConfig::new(sampling, self_play.length.max_new_tokens, &self_play.requests);
    EndpointConfig { top_k: TopK::WhereAccepted, ..config }.with_reasoning(template, reasoning, *prompt_format)
}

/// Runs the command with the model's name and folder in its environment.
fn prepare(run: RunContext<'_>, program: &str, arguments: &[String], current: Model) -> Result<()> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("SPAG_MODEL_NAME", current.stage())
        .env("SPAG_MODEL_DIR", run.config.folder_of(current));
    // Standard output has the report.
    let failed = |problem: String| Error::Prepare { program: program.to_owned(), problem };
    let status =
        command.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
}
