//! `spag serve`: an OpenAI-compatible server of checkpoints, with a page to play on.

mod models;
mod page;

use std::path::PathBuf;

use clap::Args;
use spag_cli::adapter_args::NamedFolder;
use spag_cli::{Error, LoadArgs, ReasoningSettings, Result, TemplateSettings, exit, flags, threads};
use spag_io::{PromptFormat, ReasoningFormat};
use spag_model::generate::EngineSettings;
use spag_serve::{AdapterLoading, QueueLimits, Server, ServerConfig};

use page::{PageArgs, Thinks};

use crate::network::{self, Keys, NetworkArgs};

/// Serve checkpoints over HTTP with the protocol of OpenAI, and a page to play against them at `/`.
///
/// The first line of stdout says where: `listening on http://HOST:PORT`. SIGTERM and SIGINT end the server when all
/// requests have ended; a second signal ends it at once. docs/SERVING.md lists the routes.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case", mut_args(of_servers))]
pub(crate) struct ServeArgs {
    /// The checkpoint: a Hugging Face folder or a GGUF file. It answers requests that name no model.
    #[arg(value_name = "MODEL")]
    folder: Option<PathBuf>,
    /// A further checkpoint and its name. May be given several times.
    #[arg(long, value_name = "NAME=DIR")]
    model: Vec<NamedFolder>,
    /// LoRA adapter of the first checkpoint, a folder in PEFT's format, and its name: requests for NAME are answered with it. May be
    /// given several times.
    #[arg(long, value_name = "NAME=DIR")]
    adapter: Vec<NamedFolder>,
    /// Let clients load and unload adapters with /v1/load_lora_adapter and /v1/unload_lora_adapter. The server then reads the paths
    /// that clients send.
    #[arg(long)]
    allow_adapter_loading: bool,
    /// Name of MODEL for clients. May be given several times [default: the name of the folder or file].
    #[arg(long, value_name = "NAME", requires = "folder")]
    served_model_name: Vec<String>,
    /// Maximum number of tokens in a prompt and its completion together [default: the positions of the model].
    #[arg(long, value_name = "N", value_parser = flags::within(1..=1 << 30))]
    max_length: Option<usize>,
    #[command(flatten)]
    template: TemplateSettings,
    #[command(flatten)]
    reasoning: ReasoningSettings,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    queue: QueueLimits,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    engine: EngineSettings,
    #[command(flatten)]
    loading: LoadArgs,
}

/// What flags of games mean for a server.
fn of_servers(arg: clap::Arg) -> clap::Arg {
    match arg.get_id().as_str() {
        "reasoning" => arg.help(
            "What of a model's answer to a chat is reasoning, which clients get in `reasoning_content` and a person who plays does \
             not see: none, think (what stands between tags at its beginning) or auto (think if the model's chat template or \
             vocabulary has the tags) [default: none]",
        ),
        "max_reasoning_tokens" => arg.help(
            "Maximum number of tokens of reasoning in a turn on the page, beside those of what is said. Then the closing tag is \
             written for the model [default: 1024, at most a quarter of the model's positions]",
        ),
        "keep_reasoning" => {
            arg.help("Keep a model's own earlier reasoning in its later prompts on the page: True or False [default: False]")
        }
        _ => arg,
    }
}

impl ServeArgs {
    fn reasoning(&self) -> ReasoningFormat {
        self.reasoning.reasoning.unwrap_or(ReasoningFormat::None)
    }
}

pub(crate) fn run(args: ServeArgs) -> Result<()> {
    let reasoning = ReasoningSettings { reasoning: Some(args.reasoning()), ..args.reasoning.clone() };
    if args.reasoning() == ReasoningFormat::Boxed {
        let problem =
            "the last box of an answer is known at its end only, too late for streams; name none, think or auto";
        return Err(Error::BadValue { flag: "--reasoning boxed".to_owned(), problem: problem.to_owned() });
    }
    args.loading.open()?;
    let adapter_loading = if args.allow_adapter_loading { AdapterLoading::Allowed } else { AdapterLoading::Refused };
    let config = ServerConfig { adapter_loading, ..args.network.config(args.queue)? };
    let prompts = args.page.prompts(&models::folders(&args))?;
    let format = prompts.format();
    reasoning.check(format).map_err(spag_selfplay::Error::from)?;
    let thinks = Thinks { template: &args.template, reasoning: &reasoning, prompts: format };
    let page = args.page.page(prompts, &models::names(&args)?, thinks)?;
    threads::start()?;
    network::allow_connections(config.limits.max_connections);
    let keys = Keys::of(&config);
    let server = Server::bind_with(config, models::load(&args)?, |services| page.routes(services))?;
    for (model, why) in server.without_chats() {
        if format == PromptFormat::Chat {
            return Err(Error::BadValue {
                flag: "--prompt_format chat".to_owned(),
                problem: format!("{model}: {why}"),
            });
        }
        if let spag_chat::Error::Template { reason, .. } = why {
            exit::note(format_args!("note: {model} answers no chats: {reason}"));
        }
    }
    network::serve(server, keys, "is served")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: ServeArgs,
    }

    #[test]
    fn boxes_are_refused_by_name() {
        let program = Program::try_parse_from(["serve", "DIR", "--reasoning", "boxed"]).unwrap();
        let error = run(program.args).unwrap_err();
        assert!(matches!(&error, Error::BadValue { flag, .. } if flag == "--reasoning boxed"), "{error}");
    }
}
