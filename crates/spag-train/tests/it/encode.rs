//! Samples to tokens with the tokenizers of several families.

use spag_chat::PromptEncoder;
use spag_model::Tokenizer;
use spag_model::checkpoint::load_tokenizer;
use spag_model::tokenizer::BosRule;
use spag_rewards::{Sample, SampleKind};
use spag_tests::fixture;
use spag_train::encode;

/// With BOS, if the tokenizer has one.
fn tokenizer(family: &str) -> Tokenizer {
    load_tokenizer(fixture("families").join(family)).unwrap().with_bos_rule(BosRule::IfKnown)
}

#[test]
fn samples_begin_with_bos_if_there_is_one_and_end_with_the_tokenizers_own_eos() {
    for family in ["llama2-bin", "llama3", "qwen2", "qwen3", "baichuan2-13b", "smollm"] {
        let tokenizer = tokenizer(family);
        let bos: Vec<u32> = tokenizer.bos().into_iter().collect();
        assert_eq!(bos.is_empty(), family.starts_with("qwen"), "{family}");
        for query in ["What is it?", ""] {
            let sample = Sample::sft(query, "A horse.");
            let encoded = encode(&[sample], 0, &PromptEncoder::new(tokenizer.clone()), 100).unwrap().remove(0);
            let asked = if query.is_empty() { Vec::new() } else { tokenizer.encode(query).unwrap() };
            let target = tokenizer.encode("A horse.").unwrap();
            assert_eq!(encoded.ids, [&bos[..], &asked, &target, &[tokenizer.eos()]].concat(), "{family}");
            assert_eq!((encoded.prompt_len(), encoded.spans[0].labels()), (bos.len() + asked.len(), target.len() + 1));
            assert_eq!(encoded.spans[0].labels() - encoded.predicted(), usize::from(encoded.prompt_len() == 0));
            let tokenizer = tokenizer.clone().with_bos_rule(BosRule::Never);
            let sample = Sample::sft(query, "A horse.");
            let without = encode(&[sample], 0, &PromptEncoder::new(tokenizer.clone()), 100).unwrap().remove(0);
            assert_eq!(without.ids, encoded.ids[bos.len()..], "{family}");
        }
    }
}

#[test]
fn special_tokens_are_text_in_games_and_matched_in_demonstrations() {
    for (family, eos) in [("llama2-bin", "</s>"), ("llama3", "<|eot_id|>"), ("qwen2", "<|im_end|>")] {
        let tokenizer = tokenizer(family);
        let demonstration = Sample::sft(format!("Say {eos}"), format!("{eos}A horse"));
        let game = Sample { kind: SampleKind::Game, ..demonstration.clone() };
        let encoded = encode(&[demonstration, game], 0, &PromptEncoder::new(tokenizer.clone()), 100).unwrap();
        let ends = |row: usize| encoded[row].ids.iter().filter(|id| **id == tokenizer.eos()).count();
        assert_eq!((ends(0), ends(1)), (3, 1), "{family}");
    }
}
