//! `spag serve`: an OpenAI-compatible server of checkpoints, with a page to play on.

mod models;
mod page;

use std::path::PathBuf;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spag_cli::{Error, LoadArgs, Result, Signal, exit, flags, threads};
use spag_model::EngineSettings;
use spag_serve::{ApiKeys, Ended, Limits, Server, ServerConfig};

use models::NamedFolder;
use page::PageArgs;

/// Serve checkpoints over HTTP with the protocol of OpenAI, and a page to play against them at `/`.
///
/// The first line of stdout says where: `listening on http://HOST:PORT`. SIGTERM and SIGINT end the server when all
/// requests have ended; a second signal ends it at once. docs/SERVING.md lists the routes.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct ServeArgs {
    /// The checkpoint: a Hugging Face folder or a GGUF file. It answers requests that name no model.
    #[arg(value_name = "MODEL")]
    folder: Option<PathBuf>,
    /// A further checkpoint and its name. May be given several times.
    #[arg(long, value_name = "NAME=DIR", value_parser = models::named_folder)]
    model: Vec<NamedFolder>,
    /// Name of MODEL for clients. May be given several times [default: the name of the folder or file].
    #[arg(long, value_name = "NAME", requires = "folder")]
    served_model_name: Vec<String>,
    /// Maximum number of tokens in a prompt and its completion together [default: the positions of the model].
    #[arg(long, value_name = "N", value_parser = flags::within(1..=1 << 30))]
    max_length: Option<usize>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    engine: EngineSettings,
    #[command(flatten)]
    loading: LoadArgs,
}

/// The flags of the network.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
struct NetworkArgs {
    /// Name or address to listen on. 0.0.0.0 is every network of this machine.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", help_heading = "Network")]
    host: String,
    /// Port to listen on; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 8000, help_heading = "Network")]
    port: u16,
    /// File with the keys of clients, one a line. Without it, everybody who can connect is served.
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    api_key_file: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    /// Origin whose pages may use the server from a browser (CORS), e.g. https://example.org, or * for all. May be given
    /// several times.
    #[arg(long, value_name = "ORIGIN", help_heading = "Network")]
    cors_origin: Vec<String>,
}

impl NetworkArgs {
    fn config(&self) -> Result<ServerConfig> {
        Ok(ServerConfig {
            host: self.host.clone(),
            port: self.port,
            keys: self.api_key_file.as_ref().map(ApiKeys::read).transpose()?,
            limits: self.limits,
            cors_origins: self.cors_origin.clone(),
        })
    }
}

pub(crate) fn run(args: ServeArgs) -> Result<()> {
    args.loading.open()?;
    let config = args.network.config()?;
    let page = args.page.page()?;
    threads::start()?;
    allow_connections(config.limits.max_connections);
    let is_open = config.keys.is_none();
    let server = Server::bind_with(config, models::load(&args)?, |services| page.routes(services))?;
    for (model, why) in server.without_chats() {
        if args.page.plays_in_chats() {
            return Err(Error::BadValue {
                flag: "--prompt_format chat".to_owned(),
                problem: format!("{model}: {why}"),
            });
        }
        if let spag_chat::Error::Template { reason, .. } = why {
            exit::note(format_args!("note: {model} answers no chats: {reason}"));
        }
    }
    let address = server.address();
    if is_open && !address.ip().is_loopback() {
        exit::note(format_args!(
            "warning: everybody who can connect to {address} is served; restrict it with --api_key_file"
        ));
    }
    exit::say(format_args!("listening on http://{address}"))?;
    let stopped = |signal| {
        let message = "stopped by a second signal; requests in progress were not completed".to_owned();
        Err(Error::Stopped { signal, message })
    };
    match server.run(|fault| exit::note(format_args!("error: {fault}")))? {
        Ended::Drained => Ok(()),
        Ended::Interrupted => stopped(Signal::Interrupt),
        Ended::Terminated => stopped(Signal::Terminate),
    }
}

/// Lets this process open a file for each connection, as far as the system allows.
fn allow_connections(connections: usize) {
    /// Files besides connections.
    const OTHERS: u64 = 64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = (connections as u64).saturating_add(OTHERS).min(maximum.unwrap_or(u64::MAX));
    if current.is_some_and(|current| current < wanted) {
        // With fewer files, connections wait until others are closed.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}
