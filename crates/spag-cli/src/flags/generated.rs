//! Completions of shells and man pages, made from a program's flags.

use std::path::Path;

use clap::builder::EnumValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use spag_io::CommandFiles;

use crate::{Error, Result};

/// The flag that prints a program's completions, and the one that writes its man pages.
const COMPLETIONS: &str = "completions";
const MAN_PAGES: &str = "man_pages";

/// A program with the two flags. Alone, they need none of its other flags.
pub fn with_flags(command: Command) -> Command {
    let completions = Arg::new(COMPLETIONS).long(COMPLETIONS).value_name("SHELL").exclusive(true);
    let completions = completions.value_parser(EnumValueParser::<Shell>::new()).action(ArgAction::Set);
    let man_pages = Arg::new(MAN_PAGES).long(MAN_PAGES).value_name("DIR").exclusive(true).action(ArgAction::Set);
    command
        .subcommand_required(false)
        .arg(completions.help("Print completions for bash, elvish, fish, powershell or zsh").help_heading("Setup"))
        .arg(man_pages.help("Write a man page for the program and each subcommand into DIR").help_heading("Setup"))
}

/// What the two flags ask for, as text to print; `None` if a command line has neither.
///
/// # Errors
/// A page that cannot be written.
pub(super) fn asked(command: &Command, matches: &ArgMatches) -> Result<Option<String>> {
    if let Some(shell) = matches.get_one::<Shell>(COMPLETIONS) {
        return Ok(Some(completions(command, *shell)));
    }
    let Some(folder) = matches.get_one::<String>(MAN_PAGES) else { return Ok(None) };
    CommandFiles::default().write_folder("--man_pages", folder, &[], &[])?;
    let mut written = String::new();
    for (name, page) in man_pages(command)? {
        let path = Path::new(folder).join(name);
        spag_io::write_atomically(&path, &page)?;
        written.push_str(&format!("{}\n", path.display()));
    }
    Ok(Some(written))
}

/// The completions of a program for a shell.
pub fn completions(command: &Command, shell: Shell) -> String {
    let (mut command, mut text) = (command.clone(), Vec::new());
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The man pages of a program and its subcommands by file name.
fn man_pages(command: &Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    let mut left = vec![(command.get_name().to_owned(), command)];
    while let Some((name, command)) = left.pop() {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            left.push((format!("{name}-{}", below.get_name()), below.clone()));
        }
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(Error::Stdout)?;
        pages.push((format!("{name}.1"), page));
    }
    Ok(pages)
}
