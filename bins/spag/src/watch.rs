//! `spag watch`: a page that shows a run while it works, and after.

use std::path::{Path, PathBuf};

use clap::Args;
use spag_cli::{Result, exit};
use spag_page::WatchPage;
use spag_serve::{ApiKeys, Background, Limits, Server, ServerConfig};

use crate::network::{self, AllowedHosts, Keys};

/// The port of the page.
pub(crate) const PORT: &str = "8010";
/// Connections of pages; a browser has up to six.
const CONNECTIONS: usize = 256;

/// Show a run in a browser: stages, curves, games as they end, memory.
///
/// Reads the files of the run folder and writes nothing. The run may be in progress, interrupted or finished. The first line of
/// stdout says where the page is: `listening on http://HOST:PORT`. From another machine: `ssh -L 8010:localhost:8010 HOST`.
/// SIGTERM and SIGINT end it.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct WatchArgs {
    /// The folder of a run: run_dir of its configuration.
    #[arg(value_name = "RUN_DIR")]
    run_dir: PathBuf,
    /// Folders of runs that are compared with it: their curves and win rates are drawn beside its own.
    #[arg(value_name = "OTHER_RUN_DIR")]
    others: Vec<PathBuf>,
    /// Name or address to listen on. 0.0.0.0 is every network of this machine.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value = PORT)]
    port: u16,
    /// File with the keys of readers, one a line. Without it, everybody who can connect can read the run.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    #[command(flatten)]
    hosts: AllowedHosts,
}

fn config(host: String, port: u16) -> ServerConfig {
    let limits = Limits { max_connections: CONNECTIONS, ..Limits::default() };
    ServerConfig { limits, ..ServerConfig::new(host, port) }
}

pub(crate) fn run(args: WatchArgs) -> Result<()> {
    let page = WatchPage::open(args.run_dir, args.others)?;
    let keys = args.api_key_file.as_ref().map(ApiKeys::read).transpose()?;
    let config = ServerConfig { keys, allowed_hosts: args.hosts.allowed_host, ..config(args.host, args.port) };
    let access = Keys::of(&config);
    let server = Server::bind_with(config, Vec::new(), |services| page.routes(services))?;
    network::serve(server, access, "can read the run")
}

/// The page of a run of this process.
pub(crate) struct OwnPage {
    page: WatchPage,
    _server: Background,
}

impl OwnPage {
    /// Serves the page on this machine's own network, and says where.
    ///
    /// # Errors
    /// The port cannot be listened on.
    pub(crate) fn start(run_dir: &Path, port: u16) -> Result<Self> {
        let page = WatchPage::of_run(run_dir);
        let config = config("127.0.0.1".to_owned(), port);
        let server = Server::bind_with(config, Vec::new(), |services| page.routes(services))?.start();
        exit::note(format_args!("the run can be watched on http://{}", server.address()));
        Ok(Self { page, _server: server })
    }
}

/// An open page sees how the run ended.
impl Drop for OwnPage {
    fn drop(&mut self) {
        self.page.wait_for_open_page();
    }
}
