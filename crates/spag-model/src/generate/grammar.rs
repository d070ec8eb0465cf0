//! Completions that are held to a grammar: what the engine asks of one.

use std::fmt;
use std::sync::Arc;

/// A set of texts that completions are held to. Requests share it.
pub trait Grammar: Send + Sync {
    /// The state of a completion at its begin.
    fn start(&self) -> Box<dyn GrammarState>;
}

/// A completion's place within a grammar.
pub trait GrammarState: Send {
    /// The tokens that may follow.
    ///
    /// # Errors
    /// What the grammar's limits do not allow to compute, in words.
    fn allowed(&mut self) -> Result<AllowedTokens, String>;

    /// Goes on by a token that may follow.
    ///
    /// # Errors
    /// The token may not follow, or a limit is reached.
    fn accept(&mut self, token: u32) -> Result<(), String>;
}

/// What may follow within a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedTokens {
    /// A bit for each token, in words of 32, the lowest bit first. Those of tokens that end a text do not count.
    pub words: Vec<u32>,
    /// Whether the text may end here.
    pub end: bool,
}

/// A grammar of requests. Two are equal if they are the same one.
#[derive(Clone)]
pub struct SharedGrammar(Arc<dyn Grammar>);

impl SharedGrammar {
    /// For requests.
    pub fn new(grammar: impl Grammar + 'static) -> Self {
        Self(Arc::new(grammar))
    }

    /// The state of a completion at its begin.
    pub fn start(&self) -> Box<dyn GrammarState> {
        self.0.start()
    }
}

impl PartialEq for SharedGrammar {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for SharedGrammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedGrammar")
    }
}
