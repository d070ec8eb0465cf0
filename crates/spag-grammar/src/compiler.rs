//! Grammars for the vocabulary of a tokenizer.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use spag_io::catch_panic;
use spag_model::{SharedGrammar, Tokenizer};

use crate::error::{Error, Result};
use crate::language::Language;
use crate::state::Compiled;

/// Compiles grammars for a tokenizer. Clones share the trie of its vocabulary.
#[derive(Clone)]
pub struct GrammarCompiler(Arc<ParserFactory>);

impl GrammarCompiler {
    /// Makes the trie of a vocabulary: its tokens by their bytes. Takes about a second for 150,000 tokens.
    ///
    /// # Errors
    /// A vocabulary that cannot be made one.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let special: std::collections::HashSet<u32> = tokenizer.special_tokens().map(|(id, _)| id).collect();
        let size = u32::try_from(tokenizer.vocab_size()).map_err(|error| Error::Vocabulary(error.to_string()))?;
        let bytes = |id: u32| match special.contains(&id) {
            // A special token has no text.
            true => Vec::new(),
            false => Some(tokenizer.token_bytes(id)).filter(|bytes| is_text(bytes)).unwrap_or_default(),
        };
        let words: Vec<Vec<u8>> = (0..size).map(bytes).collect();
        let factory = catch_panic(|| {
            let trie = TokTrie::from(&TokRxInfo::new(size, tokenizer.eos()), &words);
            let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let slices = llguidance::earley::SlicedBiasComputer::general_slices();
            ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
        });
        let mut factory =
            factory.and_then(|made| made.map_err(|error| error.to_string())).map_err(Error::Vocabulary)?;
        factory.quiet();
        // Errors are sent to clients, who know their grammar.
        factory.limits_mut().verbose_errors = false;
        Ok(Self(Arc::new(factory)))
    }

    /// Compiles a language, within limits of size and work.
    ///
    /// # Errors
    /// A language that is not written as it must be, is empty or needs more than the limits.
    pub fn compile(&self, language: &Language) -> Result<SharedGrammar> {
        let grammar = language.grammar()?;
        let parser = catch_panic(|| self.0.create_parser(grammar)).map_err(Error::Language)?;
        let mut matcher = Matcher::new(parser);
        if let Some(error) = matcher.get_error() {
            return Err(Error::Language(error));
        }
        // What is unusable is found now, and the work is done once.
        let first = matcher.compute_mask().map_err(|error| Error::Language(error.to_string()))?;
        if first.is_zero() {
            return Err(Error::Language("no text is in it".to_owned()));
        }
        Ok(SharedGrammar::new(Compiled::new(matcher)))
    }
}

/// Whether bytes can be part of a text. 0xff, which is not, marks special tokens in a trie.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER)
}
