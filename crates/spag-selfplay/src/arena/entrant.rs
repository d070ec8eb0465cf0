//! Who takes part, as it is written on a command line: `NAME=PLAYER`.

use std::collections::HashMap;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::player_spec::{PlayerSpec, without_password};

/// Bytes of a name at most: two of them make the name of a file.
const LONGEST: usize = 100;

/// A player with the name that it has in files and tables.
///
/// ```
/// use spag_selfplay::arena::Entrant;
/// let entrant: Entrant = "IM=runs/tiny/im/model".parse()?;
/// assert_eq!((entrant.name.as_str(), entrant.player.to_string().as_str()), ("IM", "runs/tiny/im/model"));
/// # Ok::<(), spag_selfplay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrant {
    /// Its name.
    pub name: String,
    /// The checkpoint or endpoint.
    pub player: PlayerSpec,
}

impl FromStr for Entrant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |problem| Error::BadEntrant { text: without_password(text), problem };
        // The first = ends the name: a path may hold more of them, a name none.
        let (name, player) = text.split_once('=').ok_or_else(|| bad("there is no = in it"))?;
        match name_problem(name) {
            Some(problem) => Err(bad(problem)),
            None => Ok(Self { name: name.to_owned(), player: player.parse()? }),
        }
    }
}

/// What keeps a text from being a name; a name is part of a file's name and of a line of a table.
fn name_problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("the name before the = is empty"),
        _ if name.trim() != name => Some("the name begins or ends with a blank"),
        _ if name.contains(['/', '\\']) => {
            Some("what stands before the first = looks like a path; a name has no slash, so is the name missing?")
        }
        _ if name.chars().any(char::is_control) => Some("the name holds a control character"),
        _ if name.starts_with('.') => Some("the name begins with a full stop, which would hide its files"),
        _ if name.len() > LONGEST => Some("the name is longer than 100 bytes"),
        _ => None,
    }
}

/// Checks that there are players to compare and that each has a name of its own.
///
/// # Errors
/// Fewer than two players, or two of one name; names that differ in upper and lower case alone are the same, since some
/// file systems take them so.
pub fn check_entrants(entrants: &[Entrant]) -> Result<()> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for Entrant { name, .. } in entrants {
        if let Some(first) = seen.insert(name.to_lowercase(), name) {
            return Err(Error::SameName { first: first.to_owned(), second: name.clone() });
        }
    }
    match entrants.len() {
        0 | 1 => Err(Error::TooFewPlayers { given: entrants.len() }),
        _ => Ok(()),
    }
}

/// Where the player of a name stands in the list.
///
/// # Errors
/// There is none; the error lists the names.
pub fn position(entrants: &[Entrant], name: &str) -> Result<usize> {
    let names = || entrants.iter().map(|entrant| entrant.name.as_str());
    names()
        .position(|known| known == name)
        .ok_or_else(|| Error::UnknownName { name: name.to_owned(), known: names().collect::<Vec<_>>().join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrants(texts: &[&str]) -> Vec<Entrant> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_first_equals_sign_ends_the_name() {
        for (text, name, player) in [
            ("a=models/x=1", "a", "models/x=1"),
            ("big, \"tuned\"=openai:http://h:1/v1#m=2", "big, \"tuned\"", "openai:http://h:1/v1#m=2"),
        ] {
            let entrant: Entrant = text.parse().unwrap();
            assert_eq!((entrant.name.as_str(), entrant.player.to_string().as_str()), (name, player));
        }
    }

    #[test]
    fn what_is_no_entrant_is_said() {
        for (text, part) in [
            ("models/x", "no = in it"),
            ("runs/a=b/model", "looks like a path"),
            ("openai:http://h/v1#m=2", "looks like a path"),
            ("=models/x", "is empty"),
            (" a=models/x", "blank"),
            (".a=models/x", "full stop"),
            ("a\u{1b}[1m=models/x", "control character"),
            ("a=", "it is empty"),
            ("a=openai:http://h/v1", "model's name is missing"),
        ] {
            let said = text.parse::<Entrant>().unwrap_err().to_string();
            assert!(said.contains(part), "{text:?}: {said}");
        }
        let said = format!("{}=m", "x".repeat(101)).parse::<Entrant>().unwrap_err().to_string();
        assert!(said.contains("100 bytes"), "{said}");
        let said = "openai:http://me:secret@h/v1#m=1".parse::<Entrant>().unwrap_err().to_string();
        assert!(!said.contains("secret"), "{said}");
    }

    #[test]
    fn names_are_unique_and_there_are_two() {
        assert!(check_entrants(&entrants(&["a=x", "b=x"])).is_ok());
        let said = check_entrants(&entrants(&["a=x", "b=y", "A=z"])).unwrap_err().to_string();
        assert!(said.contains("\"a\" and \"A\""), "{said}");
        let said = check_entrants(&entrants(&["a=x"])).unwrap_err().to_string();
        assert!(said.contains("at least two"), "{said}");
        let all = entrants(&["a=x", "b=x"]);
        assert_eq!(position(&all, "b").unwrap(), 1);
        let said = position(&all, "c").unwrap_err().to_string();
        assert!(said.contains("\"c\"") && said.contains("a, b"), "{said}");
    }
}
