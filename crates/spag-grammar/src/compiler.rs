//! Compiles grammars for a tokenizer's vocabulary.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use spag_io::{catch_panic, catch_panic_with_stack};
use spag_model::Tokenizer;
use spag_model::generate::SharedGrammar;

use crate::error::{Error, FAULT, Result, told};
use crate::language::Language;
use crate::state::Compiled;

/// Stack per byte of a language. The library takes 400 bytes at most, for chains of rules.
const STACK_PER_BYTE: usize = 1 << 10;
/// Maximum lexer states of a language, of up to 2 KiB each.
const MAX_LEXER_STATES: usize = 1 << 16;

/// Compiles grammars for a tokenizer. Clones share the trie of its vocabulary.
#[derive(Clone)]
pub struct GrammarCompiler(Arc<ParserFactory>);

impl GrammarCompiler {
    /// Builds the trie of a vocabulary from the bytes of its tokens. Takes about a second for 150,000 tokens.
    ///
    /// # Errors
    /// The vocabulary cannot be turned into a trie.
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
        let mut factory = factory
            .map_err(|_| FAULT.to_owned())
            .and_then(|made| made.map_err(|error| told(error.to_string())))
            .map_err(Error::Vocabulary)?;
        factory.quiet();
        let limits = factory.limits_mut();
        // Errors are sent to clients, who know their grammar.
        limits.verbose_errors = false;
        limits.max_lexer_states = MAX_LEXER_STATES;
        Ok(Self(Arc::new(factory)))
    }

    /// Compiles a language, within limits of size and work. May take seconds.
    ///
    /// # Errors
    /// The language is malformed, empty or exceeds the limits.
    pub fn compile(&self, language: &Language) -> Result<SharedGrammar> {
        let size = language.size()?;
        let compile = || {
            let mut matcher = Matcher::new(self.0.create_parser(language.grammar()?));
            if let Some(error) = matcher.get_error() {
                return Err(Error::Language(told(error)));
            }
            // Detects unusable languages now, and does the work once.
            let first = matcher.compute_mask().map_err(|error| Error::Language(told(error.to_string())))?;
            if first.is_zero() {
                return Err(Error::Language("no text is in it".to_owned()));
            }
            Ok(SharedGrammar::new(Compiled::new(matcher)))
        };
        // The library recurses along chains of rules or references.
        catch_panic_with_stack(size * STACK_PER_BYTE, compile)
            .unwrap_or_else(|_| Err(Error::Language(FAULT.to_owned())))
    }
}

/// Whether bytes can be part of a text. 0xff cannot; it marks special tokens in a trie.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER)
}
