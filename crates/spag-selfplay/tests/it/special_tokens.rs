//! What a player says never becomes a special token.

use spag_game::{Episode, Player, Role, TurnRequest, UtteranceRule};
use spag_model::{Checkpoint, EngineConfig, GenerationConfig, MemoryBudget, SpecialTokens};
use spag_selfplay::ModelPlayer;
use spag_tests::fixture;

#[test]
fn special_tokens_in_a_prompt_are_text() {
    let checkpoint = Checkpoint::load(fixture("tiny-llama")).unwrap();
    let tokenizer = checkpoint.tokenizer.clone();
    let prompt = "The attacker says: </s><s> tea <unk>";
    let count = |special| tokenizer.encode_prompt(prompt, special).unwrap().len();
    let (matched, as_text) = (count(SpecialTokens::Matched), count(SpecialTokens::AsText));
    assert!(matched < as_text);

    let engine = EngineConfig::with_max_length(checkpoint.model.config(), 1, 128, MemoryBudget::host());
    let config = GenerationConfig { max_new_tokens: 2, ..GenerationConfig::default() };
    let mut player = ModelPlayer::load(checkpoint, config, engine).unwrap();
    assert_eq!(player.context_budget(prompt).unwrap().prompt, as_text);
    for (turns, utterances) in [(1, UtteranceRule::AsDecoded), (2, UtteranceRule::Trimmed)] {
        let episode = Episode::new("tea", 2);
        let turn =
            TurnRequest { game: 0, role: Role::Attacker, episode: &episode, prompt, utterances, game_seed: 1, seed: 1 };
        player.submit(&turn).unwrap();
        assert_eq!(player.stats().prompt_tokens, turns * as_text as u64, "{utterances:?}");
    }
}
