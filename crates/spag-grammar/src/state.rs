//! The state of a completion within a grammar.

use std::sync::Mutex;

use llguidance::Matcher;
use spag_model::generate::{AllowedTokens, Grammar, GrammarState};

use crate::error::told;

/// A compiled grammar in its initial state, copied for each completion. All copies share the lexer, which can take megabytes.
pub(crate) struct Compiled(Mutex<Matcher>);

impl Compiled {
    pub(crate) fn new(begin: Matcher) -> Self {
        Self(Mutex::new(begin))
    }
}

impl Grammar for Compiled {
    fn start(&self) -> Box<dyn GrammarState> {
        // A poisoned lock is fine: copying does not modify the original.
        let begin = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Box::new(Place(begin.clone()))
    }
}

struct Place(Matcher);

fn said(error: impl ToString) -> String {
    told(error.to_string())
}

impl GrammarState for Place {
    fn allowed(&mut self) -> Result<AllowedTokens, String> {
        let mask = self.0.compute_mask_or_eos().map_err(said)?;
        let end = self.0.is_stopped() || self.0.is_accepting().map_err(said)?;
        Ok(AllowedTokens { words: mask.as_slice().to_vec(), end })
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        self.0.consume_token(token).map_err(said)
    }
}
