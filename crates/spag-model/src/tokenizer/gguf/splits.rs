//! Pre-tokenizer patterns by their names in llama.cpp.
//!
//! Patterns are those of the models' own `tokenizer.json` if known, else those of llama.cpp. They are equivalent: both
//! matches and the text between matches become parts.

use serde_json::{Value, json};
use spag_io::quote;

/// GPT-2's pattern.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const DIGITS: &str = r"\p{N}";
const UP_TO_THREE_DIGITS: &str = r"\p{N}{1,3}";
/// The pattern of cl100k, with groups of up to three digits or with single digits.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The pattern of DeepSeek, after splitting digits and Chinese and Japanese characters.
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// How a model's texts are split.
pub(super) struct Splits {
    /// Applied in sequence.
    patterns: &'static [&'static str],
    /// Whether texts are first normalised to NFC.
    pub(super) nfc: bool,
    /// Whether a part that is a token is not merged.
    pub(super) ignore_merges: bool,
    /// Whether llama.cpp prepends BOS by default.
    pub(super) add_bos: bool,
}

impl Splits {
    /// Looks up splits by name.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let plain = |patterns| Self { patterns, nfc: false, ignore_merges: false, add_bos: false };
        Ok(match name {
            "gpt-2" | "gpt2" | "phi-2" | "olmo" | "mpt" | "jais" | "exaone4" | "mellum" | "a.x-4.0" | "gigachat"
            | "modern-bert" | "trillion" | "granite-docling" => plain(&[GPT2]),
            "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" | "mellum2" => {
                plain(&[DIGITS, GPT2])
            }
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" => {
                Self { ignore_merges: true, add_bos: true, ..plain(&[LLAMA3]) }
            }
            "smaug-bpe" | "dbrx" | "glm4" | "chatglm-bpe" => plain(&[LLAMA3]),
            "qwen2" => Self { nfc: true, ..plain(&[QWEN2]) },
            "deepseek-r1-qwen" | "megrez" | "stablelm2" | "hunyuan" | "grok-2" | "kormo" | "f2llmv2" | "solar-open" => {
                plain(&[QWEN2])
            }
            "tekken" => Self { ignore_merges: true, add_bos: true, ..plain(&[TEKKEN]) },
            "gpt-4o" | "llama4" | "kanana2" => plain(&[GPT4O]),
            "seed-coder" => plain(&[SEED]),
            "deepseek-v3" | "hunyuan-dense" => plain(&[UP_TO_THREE_DIGITS, "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3]),
            "deepseek-coder" => plain(&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", DIGITS]),
            "default" => plain(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
            other => {
                return Err(format!(
                    "`tokenizer.ggml.pre` is \"{}\", a way of splitting texts that is not supported; smollm, llama-bpe, qwen2, \
                     gpt-2, tekken and others are",
                    quote(other)
                ));
            }
        })
    }

    /// The pre-tokenizer of a `tokenizer.json`.
    pub(super) fn pre_tokenizer(&self) -> Value {
        let split = |pattern: &&str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let mut parts: Vec<Value> = self.patterns.iter().map(split).collect();
        parts.push(json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}));
        json!({"type": "Sequence", "pretokenizers": parts})
    }
}
