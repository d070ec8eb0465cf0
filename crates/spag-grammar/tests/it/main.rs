//! Grammars with the tokenizers of several families: every text sampled under a grammar belongs to its language.

use fancy_regex::Regex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use spag_grammar::{Error, GrammarCompiler, Language};
use spag_model::Tokenizer;
use spag_model::checkpoint::load_tokenizer;
use spag_model::generate::AllowedTokens;
use spag_tests::fixture;

const FAMILIES: [&str; 5] = ["llama-linear-rope", "llama3", "qwen2", "gemma3", "smollm"];

fn tokenizer(family: &str) -> Tokenizer {
    load_tokenizer(fixture("families").join(family)).unwrap()
}

fn members(words: &[u32]) -> Vec<u32> {
    (0..words.len() as u32 * 32).filter(|token| words[*token as usize / 32] >> (token % 32) & 1 == 1).collect()
}

/// Samples a random allowed text; `None` if it has not ended after 400 tokens.
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
    // Another completion of the same grammar starts from its initial state.
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

/// All choices of a list are reachable, including those with another choice as prefix.
#[test]
fn long_lists_of_choices_are_compiled() {
    let tokenizer = tokenizer("qwen2");
    let compiler = GrammarCompiler::new(&tokenizer).unwrap();
    let choices: Vec<String> = (0..1 << 14).map(|at| format!("no {at}")).collect();
    for seed in 0..8 {
        let text = draw(&tokenizer, &compiler, &Language::Choice(choices.clone()), seed).unwrap();
        assert!(choices.contains(&text), "{text}");
    }
    let long = "ab".repeat(1 << 17);
    compiler.compile(&Language::Choice(vec![long])).unwrap();
}

/// The library recurses for each rule, terminal and reference; the result is used on threads with default stacks.
#[test]
fn chains_as_long_as_a_language_may_be_end_no_program() {
    let tokenizer = tokenizer("qwen2");
    let compiler = GrammarCompiler::new(&tokenizer).unwrap();
    let names = |first: char| {
        let letters = || 'a'..='z';
        let all =
            letters().flat_map(move |a| letters().flat_map(move |b| letters().map(move |c| format!("{a}{b}{c}"))));
        all.map(move |name| if first == 'A' { name.to_uppercase() } else { name })
    };
    for first in ['a', 'A'] {
        let names: Vec<String> = names(first).take((1 << 15) / 8 - 8).collect();
        let rules: String = names.windows(2).map(|pair| format!("{}:{}\n", pair[0], pair[1])).collect();
        let grammar = format!("start:{}\n{rules}{}:\"z\"\n", names[0], names[names.len() - 1]);
        assert_eq!(draw(&tokenizer, &compiler, &Language::Lark(grammar), 1).as_deref(), Some("z"));
    }
    let definitions = |number: usize, reference: fn(usize) -> Value| {
        let chain = (0..number).map(|at| (at.to_string(), reference(at + 1)));
        let all: serde_json::Map<String, Value> =
            chain.chain([(number.to_string(), json!({"type": "null"}))]).collect();
        Language::JsonSchema(json!({"$ref": "#/$defs/0", "$defs": all}))
    };
    for language in [
        definitions(2000, |at| json!({"$ref": format!("#/$defs/{at}")})),
        definitions(1500, |at| json!({"items": {"$ref": format!("#/$defs/{at}")}})),
        definitions(1300, |at| json!({"properties": {"": {"$ref": format!("#/$defs/{at}")}}})),
        definitions(1500, |at| json!({"anyOf": [{"$ref": format!("#/$defs/{at}")}]})),
        definitions(1500, |at| json!({"allOf": [{"$ref": format!("#/$defs/{at}")}]})),
    ] {
        language.check_size().unwrap();
        // It may exceed the work limit.
        if let Ok(grammar) = compiler.compile(&language) {
            let _ = grammar.start().allowed();
        }
    }
}

#[test]
fn languages_that_are_too_large_are_refused_at_once() {
    for language in [
        Language::Choice(vec!["a".into(); (1 << 14) + 1]),
        Language::Choice(vec!["a".repeat((1 << 18) + 1)]),
        Language::Regex("a".repeat((1 << 16) + 1)),
        Language::Lark("a".repeat((1 << 15) + 1)),
        Language::JsonSchema(json!({"enum": ["a".repeat(1 << 16)]})),
    ] {
        let error = language.check_size().unwrap_err();
        assert!(matches!(error, Error::TooLarge { found, most, .. } if found > most), "{error}");
    }
}
