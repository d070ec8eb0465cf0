//! The interface between the engine and grammars that constrain completions.

use std::fmt;
use std::sync::Arc;

/// A set of texts to which completions are constrained. Shared by requests.
pub trait Grammar: Send + Sync {
    /// The initial state of a completion.
    fn start(&self) -> Box<dyn GrammarState>;
}

/// The state of a completion within a grammar.
pub trait GrammarState: Send {
    /// The tokens allowed next.
    ///
    /// # Errors
    /// A limit of the grammar is exceeded; the error message.
    fn allowed(&mut self) -> Result<AllowedTokens, String>;

    /// Advances by an allowed token.
    ///
    /// # Errors
    /// The token is not allowed, or a limit is exceeded.
    fn accept(&mut self, token: u32) -> Result<(), String>;
}

/// The tokens allowed next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedTokens {
    /// One bit per token, in words of 32, lowest bit first. Bits of end-of-text tokens are ignored.
    pub words: Vec<u32>,
    /// Whether the text may end here.
    pub end: bool,
}

/// A grammar shared by requests. Equality is identity.
#[derive(Clone)]
pub struct SharedGrammar(Arc<dyn Grammar>);

impl SharedGrammar {
    /// Wraps a grammar for requests.
    pub fn new(grammar: impl Grammar + 'static) -> Self {
        Self(Arc::new(grammar))
    }

    /// The initial state of a completion.
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
