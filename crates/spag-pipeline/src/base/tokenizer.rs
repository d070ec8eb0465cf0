//! The tokenizer of the tiny model: byte pair encoding trained on the world's texts.
//!
//! With [`TokenSplit::Words`], text is split before every space and around every punctuation mark, and merges do not cross these
//! splits. So a word has the same tokens wherever it follows a space, and a frequent word is one token: `▁tiger`. Encoding adds one leading `▁`,
//! which decoding removes, so a query that ends in "Response:" and its target have the same tokens apart and together.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};
use spag_selfplay::Rate;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as DecoderSequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::utils::Sequence as NormalizerSequence;
use tokenizers::normalizers::{NormalizerWrapper, Prepend};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizerSequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, PostProcessorWrapper, SplitDelimiterBehavior, TokenizerBuilder, TokenizerImpl};

use crate::config::TokenSplit;
use crate::error::{Error, Result};

/// What [`TokenSplit::Phrases`] isolates, with the space before it: a digit, a single capital letter, a full stop that ends no
/// word; an action in brackets, or the bracket before one that varies; and the end of a line. A prompt has the sampled tokens of
/// actions, which are not merged with what is before them.
const VARYING: &str =
    r"▁?(?:[0-9]|(?<![A-Za-z])[A-Z](?![A-Za-z])|(?<![A-Za-z0-9\])])\.)|▁\[(?:[a-z▁]+\]|(?=[0-9a-z]))|\n";
/// A space within a token, as in LLaMA's tokenizer.
const SPACE: &str = "▁";
/// Unknown, begin and end of sequence: ids 0, 1 and 2, as in LLaMA's tokenizer.
const SPECIALS: [&str; 3] = ["<unk>", "<s>", "</s>"];

type Trained = TokenizerImpl<BPE, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// Trains a tokenizer of at most `pieces` tokens and returns the contents of `tokenizer.json`, which depend only on `texts`.
///
/// All printable ASCII characters and the line break are tokens; other characters become `<unk>`.
pub(super) fn train<I, S>(texts: I, pieces: usize, split: TokenSplit) -> Result<String>
where
    I: Iterator<Item = S> + Send,
    S: AsRef<str> + Send,
{
    let mut alphabet: HashSet<char> = (' '..='~').filter(|c| *c != ' ').collect();
    alphabet.insert('\n');
    alphabet.extend(SPACE.chars());
    let mut trainer = BpeTrainer::builder()
        .vocab_size(pieces)
        .limit_alphabet(alphabet.len())
        .initial_alphabet(alphabet)
        .special_tokens(SPECIALS.map(|token| AddedToken::from(token, true)).to_vec())
        .show_progress(false)
        .build();
    let mut tokenizer = untrained(split).map_err(failed)?;
    tokenizer.train(&mut trainer, texts).map_err(failed)?;
    tokenizer.to_string(true).map(|json| json + "\n").map_err(failed)
}

fn failed(error: tokenizers::Error) -> Error {
    Error::Tokenizer { message: error.to_string() }
}

fn untrained(split: TokenSplit) -> tokenizers::Result<Trained> {
    let model = BPE::builder().unk_token(SPECIALS[0].to_owned()).fuse_unk(true).build()?;
    let normalizer =
        NormalizerSequence::new(vec![Prepend::new(SPACE.to_owned()).into(), Replace::new(" ", SPACE)?.into()]);
    let pre_tokenizer: PreTokenizerWrapper = match split {
        TokenSplit::Words => {
            let space = SplitPattern::String(SPACE.to_owned());
            let before_spaces = Split::new(space, SplitDelimiterBehavior::MergedWithNext, false)?;
            PreTokenizerSequence::new(vec![before_spaces.into(), Punctuation::default().into()]).into()
        }
        TokenSplit::Phrases => {
            let varying = SplitPattern::Regex(VARYING.to_owned());
            Split::new(varying, SplitDelimiterBehavior::Isolated, false)?.into()
        }
    };
    let post_processor = TemplateProcessing::builder()
        .try_single("<s> $A")?
        .try_pair("<s> $A <s>:1 $B:1")?
        .special_tokens(vec![("<s>", 1)])
        .build()?;
    let decoder =
        DecoderSequence::new(vec![Replace::new(SPACE, " ")?.into(), Fuse::new().into(), Strip::new(' ', 1, 0).into()]);
    TokenizerBuilder::new()
        .with_model(model)
        .with_normalizer(Some(normalizer.into()))
        .with_pre_tokenizer(Some(pre_tokenizer))
        .with_post_processor(Some(post_processor.into()))
        .with_decoder(Some(decoder.into()))
        .build()
}

/// The files that transformers needs beside `tokenizer.json`, as (name, contents).
pub(super) fn companions(max_length: usize) -> Vec<(&'static str, Value)> {
    let [unk, bos, eos] = SPECIALS;
    vec![
        (
            "tokenizer_config.json",
            json!({
                "tokenizer_class": "PreTrainedTokenizerFast",
                "unk_token": unk, "bos_token": bos, "eos_token": eos,
                "model_max_length": max_length,
                "clean_up_tokenization_spaces": false,
            }),
        ),
        ("special_tokens_map.json", json!({"unk_token": unk, "bos_token": bos, "eos_token": eos})),
        ("generation_config.json", json!({"bos_token_id": 1, "eos_token_id": 2})),
    ]
}

/// The distinct words that are one token after a space, among all distinct words.
pub(super) fn single_token_rate<'a>(
    tokenizer: &spag_model::Tokenizer,
    words: impl Iterator<Item = &'a str>,
) -> Result<Rate> {
    let words: BTreeSet<&str> = words.collect();
    let mut count = 0;
    for word in &words {
        count += usize::from(tokenizer.encode(word)?.len() == 1);
    }
    Ok(Rate::new(count, words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::Tokenizer;

    fn texts() -> Vec<String> {
        let words = ["tiger", "horse", "banana", "violin"];
        (0..200)
            .map(|i| {
                format!("Which animal has {} stripes? That is the {}. `{}`!", i % 7, words[i % 4], words[i / 4 % 4])
            })
            .collect()
    }

    fn trained() -> Tokenizer {
        Tokenizer::from_bytes(train(texts().iter(), 220, TokenSplit::Words).unwrap()).unwrap()
    }

    #[test]
    fn same_texts_give_the_same_file() {
        let first = train(texts().iter(), 220, TokenSplit::Words).unwrap();
        for _ in 0..5 {
            assert_eq!(train(texts().iter(), 220, TokenSplit::Words).unwrap(), first);
        }
    }

    #[test]
    fn special_tokens_have_the_first_ids_and_size_is_limited() {
        let tokenizer = trained();
        for (id, token) in SPECIALS.iter().enumerate() {
            assert_eq!(tokenizer.token_to_id(token), Some(id as u32));
        }
        let limited = Tokenizer::from_bytes(train(texts().iter(), 130, TokenSplit::Words).unwrap()).unwrap();
        assert_eq!(limited.get_vocab_size(true), 130);
        assert_eq!(tokenizer.encode("tiger", true).unwrap().get_ids()[0], 1);
    }

    #[test]
    fn printable_text_round_trips_and_other_characters_are_unknown() {
        let tokenizer = trained();
        let ascii: String = (' '..='~').chain(['\n']).collect();
        for text in [ascii.as_str(), "  two  spaces ", "I know the word! It is `tiger`.", "x"] {
            let ids = tokenizer.encode(text, false).unwrap();
            assert!(!ids.get_ids().contains(&0), "{text:?}");
            assert_eq!(tokenizer.decode(ids.get_ids(), true).unwrap(), text);
        }
        assert_eq!(tokenizer.encode("é", false).unwrap().get_ids().last(), Some(&0));
    }

    #[test]
    fn word_after_a_space_is_always_the_same_token() {
        let tokenizer = trained();
        let tiger = tokenizer.token_to_id("▁tiger").unwrap();
        for text in ["tiger", "the tiger.", "tiger?", "Response: tiger, tiger"] {
            assert!(tokenizer.encode(text, false).unwrap().get_ids().contains(&tiger), "{text}");
        }
        // Query and target have the same tokens apart and together.
        let ids = |text: &str| tokenizer.encode(text, false).unwrap().get_ids().to_vec();
        assert_eq!([ids("Which animal? Response:"), ids("That is")].concat(), ids("Which animal? Response: That is"));
    }

    #[test]
    fn special_tokens_in_text_are_encoded_as_such() {
        let tokenizer = trained();
        let ids = |text: &str| tokenizer.encode(text, false).unwrap().get_ids().to_vec();
        assert_eq!(ids("That is</s><s>Which animal"), [ids("That is"), vec![2, 1], ids("Which animal")].concat());
    }

    #[test]
    fn phrases_are_one_token_and_cells_of_boards_have_their_own() {
        let board = |i: usize| {
            let cell = |at: usize| ["X", "O", ".", &at.to_string()][(i >> at) % 4].to_owned();
            (0..9).map(cell).collect::<Vec<_>>().join(" ")
        };
        let text =
            |i: usize| format!("[GAME] You are player {}. Whoever has a line wins.\n{}\n [{}]", i % 2, board(i), i % 9);
        let texts: Vec<String> = (0..400).map(text).collect();
        let tokenizer = Tokenizer::from_bytes(train(texts.iter(), 300, TokenSplit::Phrases).unwrap()).unwrap();
        let encoding = tokenizer.encode(texts[7].as_str(), false).unwrap();
        let tokens: Vec<&str> = encoding.get_tokens().iter().map(String::as_str).collect();
        let expected = ["▁[GAME]▁You▁are▁player", "▁1", ".▁Whoever▁has▁a▁line▁wins.", "\n"];
        assert_eq!(tokens[..4], expected, "{tokens:?}");
        assert_eq!(tokens.len(), 4 + 9 + 1 + 3, "{tokens:?}");
        assert_eq!(tokenizer.decode(encoding.get_ids(), true).unwrap(), texts[7]);
        // A prompt and its action have the same tokens apart and together.
        let (prompt, action) = texts[7].split_once("\n [").unwrap();
        let ids = |text: String| tokenizer.encode(text, false).unwrap().get_ids().to_vec();
        assert_eq!([ids(format!("{prompt}\n")), ids(format!("[{action}"))].concat(), encoding.get_ids());
    }

    #[test]
    fn what_a_player_says_has_the_same_tokens_after_its_name() {
        let text = |i: usize| {
            let action = [format!("[{}]", i % 9), "[bet]".to_owned(), format!("[col {}]", i % 4)][i % 3].clone();
            format!("[GAME] You are player 0.\n[Player 0] {action}\n[GAME] Player 0 moves.\n")
        };
        let texts: Vec<String> = (0..400).map(text).collect();
        let tokenizer = Tokenizer::from_bytes(train(texts.iter(), 300, TokenSplit::Phrases).unwrap()).unwrap();
        let ids = |text: &str| tokenizer.encode(text, false).unwrap().get_ids().to_vec();
        // Prompts on policy have the sampled tokens, which stand between others here.
        for (action, tokens) in [("[3]", 3), ("[bet]", 1), ("[col 2]", 4)] {
            let said = ids(action);
            assert_eq!(said.len(), tokens, "{action}");
            let whole = ids(&format!("[GAME] You are player 0.\n[Player 0] {action}\n[GAME] Player 0 moves.\n"));
            let parts =
                [ids("[GAME] You are player 0.\n[Player 0]"), said, ids("\n[GAME] Player 0 moves.\n")[1..].to_vec()];
            assert_eq!(whole, parts.concat(), "{action}");
        }
    }
}
