//! `spag show`: prints the games of a file.

mod filter;
mod render;
mod text;

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anstream::AutoStream;
use clap::Args;
use spag_game::{EpisodeReader, PromptSet};
use terminal_size::{Width, terminal_size_of};

use filter::{Filter, Wanted};
use render::{Reasoning, Renderer};
use spag_cli::{Error, RecordedGameArgs, Result, flags};

/// Columns if standard output is not a terminal.
const PAGE: usize = 100;
/// Minimum number of columns.
const NARROW: usize = 30;

/// Print the games of a file with their endings.
///
/// Reads one row at a time. Control characters in utterances are printed as escapes.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct ShowArgs {
    /// Games: a JSON list or JSONL.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print only games with this target word. Case does not matter.
    #[arg(long, value_name = "WORD")]
    word: Option<String>,
    /// Print only the game with this number; in a file without game numbers, the row with this number.
    #[arg(long, value_name = "N")]
    game: Option<u64>,
    /// Print only games with this outcome.
    #[arg(long, value_enum, value_name = "OUTCOME")]
    outcome: Option<Wanted>,
    /// Stop after N games.
    #[arg(long, value_name = "N", value_parser = flags::count)]
    limit: Option<usize>,
    /// Print what players thought before they spoke, and how their reasoning ended if they did not end it.
    #[arg(long)]
    reasoning: bool,
    #[command(flatten)]
    game_of_file: RecordedGameArgs,
}

pub(crate) fn run(args: ShowArgs) -> Result<()> {
    let stdout = io::stdout();
    let width = terminal_size_of(&stdout).map_or(PAGE, |(Width(columns), _)| usize::from(columns).max(NARROW));
    // Honours NO_COLOR and TERM=dumb.
    let colours = AutoStream::choice(&stdout);
    let reasoning = if args.reasoning { Reasoning::Shown } else { Reasoning::Hidden };
    show(&args, Renderer { width, reasoning }, &mut AutoStream::new(Box::new(stdout.lock()) as Box<dyn Write>, colours))
}

fn show(args: &ShowArgs, renderer: Renderer, out: &mut impl Write) -> Result<()> {
    let filter = Filter::new(args.word.as_deref(), args.game, args.outcome);
    let (mut shown, mut read) = (0, 0);
    let mut failure = None;
    let mut episodes = EpisodeReader::open(&args.file)?;
    let game = args.game_of_file.game_of(&mut episodes, &PromptSet::default())?;
    for row in episodes.judged(&*game) {
        let (row, episode, verdict) = match row {
            Ok(found) => found,
            Err(error) => {
                failure = Some(error);
                break;
            }
        };
        read += 1;
        if !filter.wants(row, &episode, verdict.ending) {
            continue;
        }
        shown += 1;
        let text = renderer.game(row, &episode, &verdict);
        // Flushed so that the reader of a pipe receives each game at once.
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::Stdout)?;
        if args.limit.is_some_and(|limit| shown >= limit) {
            break;
        }
    }
    let closing = Renderer::closing(shown, read);
    let closed = writeln!(out, "{closing}").and_then(|()| out.flush()).map_err(Error::Stdout);
    // A row that cannot be read decides the exit code, whether or not someone reads the output.
    failure.map_or(closed, |error| Err(error.into()))
}
