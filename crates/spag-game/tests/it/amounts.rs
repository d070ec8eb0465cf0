//! What games count beside who wins, and games on one deal.

use std::sync::Arc;

use spag_game::{
    CollectedGames, FinishedGame, Game, GameSpec, INVALID, PlayConfig, Policy, ScriptedPolicy, Seats, TurnRequest,
    open_game, parse_options, play_games,
};

fn open(name: &str, options: &str) -> Arc<dyn Game> {
    open_game(name, &parse_options(options), None, Default::default()).unwrap()
}

fn play(game: &dyn Game, specs: impl Iterator<Item = GameSpec>, player: &mut dyn Policy) -> Vec<FinishedGame> {
    let mut played = CollectedGames::default();
    play_games(game, specs, Seats::SelfPlay(player), &PlayConfig::default(), &mut played).unwrap();
    played.finished.sort_by_key(|finished| finished.number);
    played.finished
}

fn spec(number: usize, seed: u64, sampling_seed: Option<u64>) -> GameSpec {
    GameSpec { number, item: String::new(), max_turns: 0, seed, sampling_seed }
}

#[test]
fn chips_are_counted_and_judged_alike() {
    let game = open("kuhn-poker", "rounds=1 bets_count=true");
    assert_eq!((game.amounts(), open("nim", "").amounts()), (Some("chips"), None));
    let all = play(&*game, (0..60).map(|seed| spec(seed, seed as u64, None)), &mut ScriptedPolicy::random_actions());
    let mut seen = std::collections::BTreeSet::new();
    for finished in &all {
        let [first, second] = finished.verdict.amounts.unwrap();
        assert_eq!(first + second, 0);
        let winner = finished.verdict.winner().unwrap();
        assert_eq!(winner.index(), usize::from(second > 0), "{:?}", finished.episode);
        let folded = finished.episode.history.last().unwrap().content == "[fold]";
        let called = finished.episode.history.last().unwrap().content == "[call]";
        assert_eq!(first.abs(), if called { 2 } else { 1 }, "{folded} {:?}", finished.episode);
        let judged = game.judge().judge(&finished.episode.view()).unwrap();
        assert_eq!(judged.amounts, finished.verdict.amounts);
        seen.insert(first);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-2, -1, 1, 2]);
    // A broken rule has no amounts.
    let mut silent = ScriptedPolicy::new(|_: &TurnRequest<'_>| "hm".to_owned());
    let lost = play(&*game, [spec(0, 1, None)].into_iter(), &mut silent);
    assert_eq!((lost[0].verdict.ending, lost[0].verdict.amounts), (INVALID, None));
}

#[test]
fn games_on_one_deal_draw_their_utterances_apart() {
    let game = open("kuhn-poker", "rounds=1");
    let specs = (0..24).map(|number| spec(number, 7, (number > 0).then_some(number as u64)));
    let all = play(&*game, specs, &mut ScriptedPolicy::random_actions());
    let said = |finished: &FinishedGame| -> Vec<String> {
        finished.episode.history.iter().map(|said| said.content.clone()).collect()
    };
    assert!(all.iter().any(|finished| said(finished) != said(&all[0])));
    // The record has both seeds, and is judged by that of the deal: who wins a showdown is the same in all games.
    let showdowns: Vec<_> = all.iter().filter(|one| said(one).last().unwrap() != "[fold]").collect();
    assert!(showdowns.iter().all(|one| one.verdict.winner() == showdowns[0].verdict.winner()));
    for finished in &all {
        assert_eq!(finished.episode.extra["seed"], 7);
        let own = finished.episode.extra.get("sampling_seed").and_then(|seed| seed.as_u64());
        assert_eq!(own, (finished.number > 0).then_some(finished.number as u64));
        let judged = game.judge().judge(&finished.episode.view()).unwrap();
        assert_eq!(judged.winner(), finished.verdict.winner());
    }
}
