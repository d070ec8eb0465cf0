//! `spag show`: games of a file, as a reader wants them.

mod escape;
mod filter;
mod paint;
mod render;
mod wrap;

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    path::PathBuf,
};

use clap::Args;
use spag_game::{EpisodeReader, JudgeKind};
use terminal_size::{Width, terminal_size_of};

use filter::{Filter, Wanted};
use paint::{Paint, Stream};
use render::Look;
use spag_cli::{Error, Result, flags};

/// Columns of a page where there is no terminal.
const PAGE: usize = 100;
/// Columns at least, however narrow the terminal.
const NARROW: usize = 30;

/// Print the games of a file: who said what, and how it ended.
///
/// Reads a JSON list or JSONL, a row at a time. Control characters in what was said are printed as escapes.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct ShowArgs {
    /// Games: a JSON list or JSONL.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only games on this word, in upper or lower case.
    #[arg(long, value_name = "WORD")]
    word: Option<String>,
    /// Only the game of this number, as records note it; in a file that notes none, the row of this number.
    #[arg(long, value_name = "N")]
    game: Option<u64>,
    /// Only games that ended so.
    #[arg(long, value_enum, value_name = "OUTCOME")]
    outcome: Option<Wanted>,
    /// Stop after so many games.
    #[arg(long, value_name = "N", value_parser = flags::count)]
    limit: Option<usize>,
    /// Who decides: paper (matches anywhere in a word) or whole-word.
    #[arg(long, value_name = "JUDGE", default_value = "paper")]
    judge: JudgeKind,
}

pub(crate) fn run(args: ShowArgs) -> Result<()> {
    let stdout = io::stdout();
    let stream = if stdout.is_terminal() { Stream::Terminal } else { Stream::Other };
    let paint = Paint::choose(stream, std::env::var_os("NO_COLOR").as_deref(), std::env::var_os("TERM").as_deref());
    let width = terminal_size_of(&stdout).map_or(PAGE, |(Width(columns), _)| usize::from(columns).max(NARROW));
    show(&args, Look { paint, width }, &mut BufWriter::new(stdout.lock()))
}

fn show(args: &ShowArgs, look: Look, out: &mut impl Write) -> Result<()> {
    let filter = Filter::new(args.word.as_deref(), args.game, args.outcome);
    let (mut shown, mut read) = (0, 0);
    let mut trouble = None;
    for row in EpisodeReader::open(&args.file)? {
        let (row, episode) = match row {
            Ok(found) => found,
            Err(error) => {
                trouble = Some(error);
                break;
            }
        };
        read += 1;
        let (ending, length) = spag_selfplay::ending(&episode, args.judge)?;
        if !filter.wants(row, &episode, ending) {
            continue;
        }
        shown += 1;
        let text = look.game(row, &episode, ending, length);
        // A reader at the other end of a pipe gets each game at once.
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::Stdout)?;
        if args.limit.is_some_and(|limit| shown >= limit) {
            break;
        }
    }
    let closing = look.closing(shown, read);
    writeln!(out, "{closing}").and_then(|()| out.flush()).map_err(Error::Stdout)?;
    trouble.map_or(Ok(()), |error| Err(error.into()))
}
