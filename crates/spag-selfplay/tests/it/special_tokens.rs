//! What a player says never becomes a special token.

use spag_game::{Episode, Policy, TurnRequest, UtteranceRule, taboo};
use spag_io::{PromptText, TurnPrompt};
use spag_model::generate::MemoryBudget;
use spag_model::tokenizer::SpecialTokens;
use spag_model::{Checkpoint, EngineConfig, GenerationConfig};
use spag_selfplay::ModelPlayer;
use spag_tests::fixture;

#[test]
fn special_tokens_that_players_say_are_text() {
    let checkpoint = Checkpoint::load(fixture("tiny-llama")).unwrap();
    let tokenizer = checkpoint.tokenizer.clone();
    let text = "The attacker says: </s><s> tea <unk>";
    let count = |special| tokenizer.encode_prompt(text, special).unwrap().len();
    let (matched, as_text) = (count(SpecialTokens::Matched), count(SpecialTokens::AsText));
    assert!(matched < as_text);

    let engine = EngineConfig::with_max_length(checkpoint.model.config(), 1, 128, MemoryBudget::host());
    let config = GenerationConfig { max_new_tokens: 2, ..GenerationConfig::default() };
    let mut player = ModelPlayer::load(checkpoint, config, engine).unwrap();
    let said = PromptText::new(text.to_owned(), vec![19..text.len()]).unwrap();
    let mut expected = 0;
    for (prompt, tokens, utterances) in [
        (said.clone(), as_text, UtteranceRule::AsDecoded),
        (said, as_text, UtteranceRule::Trimmed),
        (PromptText::own(text), matched, UtteranceRule::Trimmed),
    ] {
        let prompt = &TurnPrompt::Plain(prompt);
        assert_eq!(player.context_budget(prompt).unwrap().prompt, tokens);
        let episode = Episode::new("tea", 2);
        let turn = TurnRequest {
            number: 0,
            seat: taboo::ATTACKER,
            episode: &episode,
            prompt,
            utterance_rule: utterances,
            legal_actions: None,
            game_seed: 1,
            seed: 1,
        };
        player.submit(&turn).unwrap();
        expected += tokens as u64;
        assert_eq!(player.stats().prompt_tokens, expected, "{utterances:?}");
    }
}
