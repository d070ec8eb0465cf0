//! Languages through the tokenizers of several families: whatever is drawn of what is allowed is of the language.

use fancy_regex::Regex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use spag_grammar::{Error, GrammarCompiler, Language};
use spag_model::{AllowedTokens, Tokenizer, load_tokenizer};
use spag_tests::fixture;

const FAMILIES: [&str; 5] = ["llama-linear-rope", "llama3", "qwen2", "gemma3", "smollm"];

fn tokenizer(family: &str) -> Tokenizer {
    load_tokenizer(fixture("families").join(family)).unwrap()
}

fn members(words: &[u32]) -> Vec<u32> {
    (0..words.len() as u32 * 32).filter(|token| words[*token as usize / 32] >> (token % 32) & 1 == 1).collect()
}

/// A text of random tokens that may follow; `None` if it has not ended after 400.
fn draw(tokenizer: &Tokenizer, compiler: &GrammarCompiler, language: &Language, seed: u64) -> Option<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut state = compiler.compile(language).unwrap().start();
    let mut text = Vec::new();
    for _ in 0..400 {
        let AllowedTokens { words, end } = state.allowed().unwrap();
        let mut tokens = members(&words);
        tokens.retain(|token| !tokenizer.eos_ids().contains(token));
        if end && (tokens.is_empty() || rng.random_bool(0.2)) {
            return Some(String::from_utf8(text).unwrap());
        }
        assert!(!tokens.is_empty(), "{language:?}: nothing may follow {:?}", String::from_utf8_lossy(&text));
        let token = tokens[rng.random_range(0..tokens.len())];
        let bytes = tokenizer.token_bytes(token);
        assert!(!bytes.is_empty(), "{token} has no text");
        text.extend(bytes);
        state.accept(token).unwrap();
    }
    None
}

#[test]
fn texts_of_every_family_are_of_their_language() {
    let regex = r"(yes|no) [a-c]{2,4}(, [0-9]+)?\.";
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 8}, "b": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}},
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let whole = Regex::new(&format!("^(?:{regex})$")).unwrap();
    let choices = ["[0]", "[1] é", "\"\n\\"].map(str::to_owned);
    for family in FAMILIES {
        let tokenizer = tokenizer(family);
        let compiler = GrammarCompiler::new(&tokenizer).unwrap();
        let mut ended = 0;
        for seed in 0..20 {
            let text = draw(&tokenizer, &compiler, &Language::Regex(regex.into()), seed);
            assert!(text.is_none_or(|text| whole.is_match(&text).unwrap()), "{family}");
            let text = draw(&tokenizer, &compiler, &Language::Choice(choices.to_vec()), seed).unwrap();
            assert!(choices.contains(&text), "{family}: {text}");
            if let Some(text) = draw(&tokenizer, &compiler, &Language::JsonSchema(schema.clone()), seed) {
                let found: Value =
                    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{family}: {text}: {error}"));
                assert!(found["a"].as_str().unwrap().chars().count() <= 8 && found["b"].is_array(), "{family}: {text}");
                ended += 1;
            }
        }
        assert!(ended > 5, "{family}: {ended}");
    }
}

#[test]
fn tokens_out_of_place_are_refused() {
    let tokenizer = tokenizer("qwen2");
    let compiler = GrammarCompiler::new(&tokenizer).unwrap();
    let grammar = compiler.compile(&Language::Choice(vec!["ab".into()])).unwrap();
    let [a, b] = ["a", "b"].map(|text| tokenizer.encode(text).unwrap()[0]);
    let mut state = grammar.start();
    assert!(!state.allowed().unwrap().end);
    state.accept(a).unwrap();
    assert!(state.accept(a).is_err());
    // Another completion of the same grammar begins at its begin.
    let mut other = grammar.start();
    other.accept(a).unwrap();
    other.accept(b).unwrap();
    assert!(other.allowed().unwrap().end);
}

#[test]
fn languages_that_cannot_be_compiled_are_refused() {
    let compiler = GrammarCompiler::new(&tokenizer("qwen2")).unwrap();
    for language in [
        Language::Regex("(a".into()),
        Language::Regex("(?=a)".into()),
        Language::Regex("[^\\s\\S]".into()),
        Language::Choice(Vec::new()),
        Language::Choice(vec![String::new()]),
        Language::JsonSchema(json!([1])),
        Language::JsonSchema(json!({"type": "no such type"})),
        Language::JsonSchema(json!({"$ref": "#/$defs/missing"})),
        Language::Lark("start: missing".into()),
        Language::Lark(String::new()),
    ] {
        let refused = compiler.compile(&language).map(|_| ());
        assert!(matches!(refused, Err(Error::Language(_))), "{language:?}: {refused:?}");
    }
}
