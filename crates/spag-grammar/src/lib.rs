//! Constrains completions to JSON, a JSON schema, a regular expression, a list of choices or a Lark grammar, with the library
//! `llguidance`. A [`GrammarCompiler`] belongs to a tokenizer and compiles languages for
//! [`GenerationConfig::grammar`](spag_model::GenerationConfig::grammar).
//!
//! ```no_run
//! use spag_grammar::{GrammarCompiler, Language};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tokenizer = spag_model::checkpoint::load_tokenizer("data/tiny-llama")?;
//! let compiler = GrammarCompiler::new(&tokenizer)?;
//! let grammar = compiler.compile(&Language::Regex(r"\[(stop|[0-9]+)\]".into()))?;
//! let config = spag_model::GenerationConfig { grammar: Some(grammar), ..Default::default() };
//! # Ok(())
//! # }
//! ```

mod compiler;
mod error;
mod language;
mod state;

pub use compiler::GrammarCompiler;
pub use error::{Error, Result};
pub use language::Language;
