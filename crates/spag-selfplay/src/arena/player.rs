//! The players of an arena, written `NAME=PLAYER` on a command line.

use std::collections::HashMap;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::player_spec::{PlayerSpec, without_password};

/// Longest name in bytes; two names are part of a file name.
const LONGEST: usize = 100;

/// A player and its name in files and tables.
///
/// ```
/// use spag_selfplay::arena::NamedPlayer;
/// let named: NamedPlayer = "IM=runs/tiny/im/model".parse()?;
/// assert_eq!((named.name.as_str(), named.player.to_string().as_str()), ("IM", "runs/tiny/im/model"));
/// # Ok::<(), spag_selfplay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPlayer {
    /// The name.
    pub name: String,
    /// The checkpoint or endpoint.
    pub player: PlayerSpec,
}

impl FromStr for NamedPlayer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let syntax = "it is written NAME=PLAYER, where PLAYER is a checkpoint's folder or GGUF file, or an endpoint";
        let bad = |problem| Error::BadPlayer { text: without_password(text), problem, syntax };
        // A path may contain =, a name may not.
        let (name, player) = text.split_once('=').ok_or_else(|| bad("it has no ="))?;
        match name_problem(name) {
            Some(problem) => Err(bad(problem)),
            None => Ok(Self { name: name.to_owned(), player: player.parse()? }),
        }
    }
}

/// Why a text is no valid name. Names are part of file names and of table rows.
fn name_problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("the name before the = is empty"),
        _ if name.trim() != name => Some("the name starts or ends with white space"),
        _ if name.contains(['/', '\\']) => {
            Some("the text before the first = looks like a path; a name has no slash, is the name missing?")
        }
        _ if spag_io::escape(name) != name => Some("the name contains a control character or an invisible one"),
        _ if name.starts_with('.') => Some("the name starts with a full stop, which would hide its files"),
        _ if name.len() > LONGEST => Some("the name is longer than 100 bytes"),
        _ => None,
    }
}

/// Checks that there are at least two players and that their names are unique, ignoring case as some file systems do.
///
/// # Errors
/// Fewer than two players, or two players of one name.
pub fn check_players(players: &[NamedPlayer]) -> Result<()> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for NamedPlayer { name, .. } in players {
        if let Some(first) = seen.insert(name.to_lowercase(), name) {
            return Err(Error::BadArena(format!(
                "the players {first:?} and {name:?} have the same name, ignoring case; give each a unique name"
            )));
        }
    }
    if players.len() < 2 {
        let given = players.len();
        return Err(Error::BadArena(format!(
            "{given} player given; an arena needs at least two, each written NAME=PLAYER"
        )));
    }
    Ok(())
}

/// The index of the player of this name.
///
/// # Errors
/// No player has this name; the error lists the names.
pub fn player_index(players: &[NamedPlayer], name: &str) -> Result<usize> {
    players.iter().position(|player| player.name == name).ok_or_else(|| {
        let known: Vec<&str> = players.iter().map(|player| player.name.as_str()).collect();
        Error::BadArena(format!(
            "no player is called {name:?}; the players are {}",
            spag_io::abridge(&known.join(", "), 500)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn players(texts: &[&str]) -> Vec<NamedPlayer> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn name_ends_at_the_first_equals_sign() {
        for (text, name, player) in [
            ("a=models/x=1", "a", "models/x=1"),
            ("big, \"tuned\"=openai:http://h:1/v1#m=2", "big, \"tuned\"", "openai:http://h:1/v1#m=2"),
        ] {
            let named: NamedPlayer = text.parse().unwrap();
            assert_eq!((named.name.as_str(), named.player.to_string().as_str()), (name, player));
        }
    }

    #[test]
    fn invalid_players_are_refused_with_the_reason() {
        for (text, part) in [
            ("models/x", "no ="),
            ("runs/a=b/model", "looks like a path"),
            ("openai:http://h/v1#m=2", "looks like a path"),
            ("=models/x", "is empty"),
            (" a=models/x", "white space"),
            (".a=models/x", "full stop"),
            ("a\u{1b}[1m=models/x", "control character"),
            ("a\u{202e}b=models/x", "invisible"),
            ("a\u{200b}=models/x", "invisible"),
            ("a\nb=models/x", "control character"),
            ("a=", "it is empty"),
            ("a=openai:http://h/v1", "model's name is missing"),
        ] {
            let said = text.parse::<NamedPlayer>().unwrap_err().to_string();
            assert!(said.contains(part), "{text:?}: {said}");
        }
        let said = format!("{}=m", "x".repeat(101)).parse::<NamedPlayer>().unwrap_err().to_string();
        assert!(said.contains("100 bytes"), "{said}");
        let said = "openai:http://me:secret@h/v1#m=1".parse::<NamedPlayer>().unwrap_err().to_string();
        assert!(!said.contains("secret"), "{said}");
    }

    #[test]
    fn names_must_be_unique_and_at_least_two() {
        assert!(check_players(&players(&["a=x", "b=x"])).is_ok());
        let said = check_players(&players(&["a=x", "b=y", "A=z"])).unwrap_err().to_string();
        assert!(said.contains("\"a\" and \"A\""), "{said}");
        let said = check_players(&players(&["a=x"])).unwrap_err().to_string();
        assert!(said.contains("at least two"), "{said}");
        let all = players(&["a=x", "b=x"]);
        assert_eq!(player_index(&all, "b").unwrap(), 1);
        let said = player_index(&all, "c").unwrap_err().to_string();
        assert!(said.contains("\"c\"") && said.contains("a, b"), "{said}");
    }
}
