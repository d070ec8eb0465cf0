//! A game that stops at its decision has the same training samples as one that is played on.

use spag_game::taboo::{Rules, Taboo};

use spag_game::{
    AfterDecision, Episode, FinishedGame, GameSpec, PlayConfig, PromptSet, ScriptedPolicy, Seats, TurnRequest,
    game_seed, play_games, taboo,
};
use spag_rewards::{CreditConfig, assign_rewards};

/// An utterance drawn from the turn's seed: talk, the word, or a guess, also after the decision.
fn said(turn: &TurnRequest<'_>) -> String {
    match (turn.seed % 8, turn.seat) {
        (0, _) => "It is tea.".into(),
        (1 | 2, taboo::DEFENDER) => "I know the word! It is tea!".into(),
        (3, taboo::DEFENDER) => "I know the word! It is milk!".into(),
        _ => format!("Utterance {}.", turn.seed),
    }
}

fn played(after_decision: AfterDecision) -> Vec<Episode> {
    let specs = (0..200).map(|number| GameSpec {
        number,
        item: "tea".into(),
        max_turns: 5,
        seed: game_seed(1, number),
        sampling_seed: None,
    });
    let mut games: Vec<FinishedGame> = Vec::new();
    let (mut player, prompts) = (ScriptedPolicy::new(said), PromptSet::default());
    let game = Rules { after_decision, ..Rules::default() }.game(&prompts);
    play_games(&game, specs, Seats::SelfPlay(&mut player), &PlayConfig::default(), &mut |game: FinishedGame| {
        games.push(game);
        Ok(())
    })
    .unwrap();
    games.sort_by_key(|game| game.number);
    games.into_iter().map(|game| game.episode).collect()
}

#[test]
fn training_samples_do_not_depend_on_when_a_game_stopped() {
    let (stopped, played_on) = (played(AfterDecision::Stop), played(AfterDecision::PlayOn));
    let longer = stopped.iter().zip(&played_on).filter(|(a, b)| a.history.len() < b.history.len()).count();
    assert!(longer > 100 && played_on.iter().all(|episode| episode.history.len() == 10));
    let samples = |episodes: &[Episode]| {
        let credited = assign_rewards(episodes, &Taboo::default(), &CreditConfig::default()).unwrap();
        serde_json::to_value(credited.samples).unwrap()
    };
    let of_stopped = samples(&stopped);
    assert!(of_stopped.as_array().unwrap().len() > 100);
    assert_eq!(of_stopped, samples(&played_on));
}
