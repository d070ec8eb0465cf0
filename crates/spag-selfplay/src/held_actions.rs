//! Utterances held to the actions that a turn lists.

use std::collections::HashMap;
use std::sync::Arc;

use spag_grammar::{GrammarCompiler, Language};
use spag_model::generate::SharedGrammar;
use spag_model::{GenerationConfig, Tokenizer};

use crate::error::Result;

/// Lists of actions whose grammars are kept.
const MOST: usize = 4096;

/// Grammars of lists of actions, each compiled once. A clone shares what was compiled.
#[derive(Clone)]
pub(crate) struct HeldActions {
    compiler: GrammarCompiler,
    grammars: HashMap<Vec<String>, SharedGrammar>,
}

impl HeldActions {
    /// For a model with this tokenizer.
    ///
    /// # Errors
    /// Its vocabulary cannot be held to grammars.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self> {
        Ok(Self { compiler: GrammarCompiler::new(tokenizer)?, grammars: HashMap::new() })
    }

    /// The settings of an utterance that is one of `actions`. It ends with the action.
    ///
    /// # Errors
    /// The tokens cannot spell an action.
    pub(crate) fn hold(
        &mut self,
        config: &Arc<GenerationConfig>,
        actions: &[String],
    ) -> spag_grammar::Result<Arc<GenerationConfig>> {
        let grammar = match self.grammars.get(actions) {
            Some(grammar) => grammar.clone(),
            None => {
                let grammar = self.compiler.compile(&Language::Choice(actions.to_vec()))?;
                if self.grammars.len() >= MOST {
                    self.grammars.clear();
                }
                self.grammars.insert(actions.to_vec(), grammar.clone());
                grammar
            }
        };
        Ok(Arc::new(GenerationConfig { grammar: Some(grammar), min_new_tokens: 0, ..(**config).clone() }))
    }
}
