//! Colours, where they are wanted.

use std::{ffi::OsStr, fmt::Display};

/// Where the output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Terminal,
    /// A file or a pipe.
    Other,
}

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Coloured,
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Strong,
    Attacker,
    Defender,
    Ending,
    Dim,
}

impl Paint {
    /// Colours on a terminal, unless it is called dumb or `NO_COLOR` holds anything (<https://no-color.org>).
    pub(super) fn choose(stream: Stream, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let unwanted = no_color.is_some_and(|value| !value.is_empty()) || term.is_some_and(|term| term == "dumb");
        match stream {
            Stream::Terminal if !unwanted => Self::Coloured,
            _ => Self::Plain,
        }
    }

    /// The text in a style, by the codes of ECMA-48.
    pub(super) fn text(self, style: Style, text: impl Display) -> String {
        let code = match style {
            Style::Strong => "1",
            Style::Attacker => "31",
            Style::Defender => "36",
            Style::Ending => "33",
            Style::Dim => "2",
        };
        match self {
            Self::Plain => text.to_string(),
            Self::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_on_a_terminal_alone_and_not_against_the_wish() {
        let choose = |stream, no_color: Option<&str>, term: Option<&str>| {
            Paint::choose(stream, no_color.map(OsStr::new), term.map(OsStr::new))
        };
        assert_eq!(choose(Stream::Terminal, None, Some("xterm")), Paint::Coloured);
        assert_eq!(choose(Stream::Terminal, Some(""), None), Paint::Coloured);
        assert_eq!(choose(Stream::Terminal, Some("1"), Some("xterm")), Paint::Plain);
        assert_eq!(choose(Stream::Terminal, None, Some("dumb")), Paint::Plain);
        assert_eq!(choose(Stream::Other, None, Some("xterm")), Paint::Plain);
    }
}
