//! A pool of servers as a player, on real sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use spag_game::taboo::Taboo;
use spag_game::{CollectedGames, GameSpec, PlayConfig, PromptSet, Seats, game_seed, play_games};
use spag_selfplay::{
    EndpointConfig, EndpointPlayer, EndpointSpec, PromptStyle, RetryConfig, SamplingSettings, Servers,
};
use spag_tests::{Answer, Received, Server, reserve_port};

fn config() -> EndpointConfig {
    let ms = Duration::from_millis;
    EndpointConfig {
        max_tokens: 32,
        sampling: SamplingSettings { top_k: Some(0), ..SamplingSettings::default() },
        in_flight: 4,
        timeout: Duration::from_secs(20),
        retry: RetryConfig { base: ms(2), cap: ms(8), retry_after_cap: ms(300), tries: 4, rest: ms(100) },
        ..EndpointConfig::default()
    }
}

fn pool(urls: impl IntoIterator<Item = String>, config: EndpointConfig) -> EndpointPlayer {
    let servers = Servers::Pool(urls.into_iter().collect());
    let spec = EndpointSpec { servers, model: "m".into(), style: PromptStyle::Chat, key_variable: None };
    EndpointPlayer::new(spec, config).unwrap()
}

fn specs(games: usize) -> Vec<GameSpec> {
    let spec =
        |number| GameSpec { number, item: "tea".into(), max_turns: 3, seed: game_seed(5, number), sampling_seed: None };
    (0..games).map(spec).collect()
}

fn try_play(player: &mut EndpointPlayer, games: usize) -> (spag_game::Result<()>, CollectedGames) {
    let config = PlayConfig { games_in_flight: player.requests_in_flight(), ..PlayConfig::default() };
    let mut sink = CollectedGames::default();
    let result =
        play_games(&Taboo::new(&PromptSet::default()), specs(games), Seats::SelfPlay(player), &config, &mut sink);
    sink.finished.sort_by_key(|game| game.number);
    (result, sink)
}

/// Plays games of which none fails.
fn play(player: &mut EndpointPlayer, games: usize) -> CollectedGames {
    let (result, played) = try_play(player, games);
    result.unwrap();
    assert_eq!((played.finished.len(), played.failed.len()), (games, 0));
    played
}

/// An utterance that depends on the request alone, as that of every server of a pool.
fn utterance(asked: &Received) -> Answer {
    Answer::says(&format!("I have {} and {}.", asked.seed(), asked.prompt().len())).after(Duration::from_millis(3))
}

/// The game of each request, by the seeds of turns.
fn games(server: &Server, games: usize) -> Vec<usize> {
    let turns = (0..games).flat_map(|game| (0..6).map(move |turn| (game_seed(game_seed(5, game), turn) >> 33, game)));
    let game: BTreeMap<u64, usize> = turns.collect();
    server.received().iter().map(|asked| game[&asked.seed()]).collect()
}

#[test]
fn turns_are_shared_and_games_stay_on_their_server() {
    let servers = [Server::start(utterance), Server::start(utterance)];
    let mut player = pool(servers.iter().map(Server::base_url), config());
    assert_eq!(player.requests_in_flight(), 8);
    let played = play(&mut player, 40);
    let counts = servers.each_ref().map(|server| server.received().len());
    assert_eq!(counts.iter().sum::<usize>(), 240);
    assert!(counts.iter().all(|count| *count >= 80), "{counts:?}");
    for server in &servers {
        assert!(server.most_at_once() <= 4, "{}", server.most_at_once());
    }
    // Turns that follow a turn of their game on the same server.
    let stayed: usize = servers
        .iter()
        .map(|server| {
            let games = games(server, 40);
            games.len() - games.iter().collect::<BTreeSet<_>>().len()
        })
        .sum();
    assert!(stayed >= 150, "{stayed} of 200 turns after the first of their game");
    // Statistics are those of all servers, and games do not depend on which one answers.
    let stats = player.stats();
    assert_eq!((stats.requests, stats.retries, stats.failures), (240, 0, 0));
    assert_eq!((stats.prompt_tokens, stats.completion_tokens), (2400, 720));
    let one = Server::start(utterance);
    assert_eq!(play(&mut pool([one.base_url()], config()), 40), played);
}

#[test]
fn url_without_a_server_loses_no_game_and_is_used_when_there_is_one() {
    let port = reserve_port();
    let server = Server::start(utterance);
    let absent = format!("http://127.0.0.1:{port}/v1");
    let mut player = pool([absent, server.base_url()], config());
    play(&mut player, 20);
    assert_eq!(server.received().len(), 120);
    let stats = player.stats();
    assert!(stats.retries >= 1 && stats.failures == 0, "{stats:?}");
    // The failed URL was tried a few times only, not once for each turn.
    assert!(stats.requests < 160, "{stats:?}");

    // A server starts there.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let count = answered.clone();
    let forward = server.base_url();
    thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            let (stream, to) = (stream.unwrap(), forward.clone());
            thread::spawn(move || relay(stream, &to));
        }
    });
    thread::sleep(Duration::from_millis(120));
    play(&mut player, 20);
    assert!(answered.load(Ordering::SeqCst) > 0, "the URL is tried again");
}

/// Connects a client to the server at `url`.
fn relay(client: std::net::TcpStream, url: &str) {
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    let server = std::net::TcpStream::connect(address).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut from, mut to) = (server, client);
    let _ = std::io::copy(&mut from, &mut to);
}

static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn server_with_errors_is_left_after_its_back_off_and_taken_again() {
    let failing = Arc::new(AtomicBool::new(true));
    let state = failing.clone();
    let ill = Server::start(move |asked| match state.load(Ordering::SeqCst) {
        true => Answer::error(503, "loading the model"),
        false => utterance(asked),
    });
    let well = Server::start(utterance);
    let report = |line: &str| REPORTED.lock().unwrap().push(line.to_owned());
    let mut player = pool([ill.base_url(), well.base_url()], EndpointConfig { report, ..config() });
    play(&mut player, 20);
    assert_eq!((well.received().len(), player.stats().failures), (120, 0));
    // The first turns had four tries each, later ones a try now and then.
    let tried = ill.received().len();
    assert!((4..100).contains(&tried), "{tried}");
    let lines = || REPORTED.lock().unwrap().clone();
    assert_eq!(lines().len(), 1, "{:?}", lines());
    assert!(lines()[0].contains("503") && lines()[0].ends_with("its turns go to the other URLs of the pool"));

    failing.store(false, Ordering::SeqCst);
    thread::sleep(Duration::from_millis(120));
    play(&mut player, 20);
    assert!(ill.received().len() >= tried + 30, "{} requests", ill.received().len() - tried);
    assert_eq!(lines()[1..], [format!("{} answers again", ill.base_url())]);
}

#[test]
fn turn_fails_after_all_urls_have_failed() {
    let ports = [reserve_port(), reserve_port()];
    let server = Server::start(|_| Answer::error(500, "out of memory"));
    let urls = ports.iter().map(|port| format!("http://127.0.0.1:{}/v1", *port)).chain([server.base_url()]);
    let mut player = pool(urls, config());
    let (result, games) = try_play(&mut player, 50_000);
    let said = result.unwrap_err().to_string();
    assert!(said.starts_with("10 games in a row failed, the last one: game "), "{said}");
    assert!(said.contains("no answer after "), "{said}");
    assert_eq!((games.finished.len(), games.failed.len()), (0, 10));
    // Each failed turn has tried the server that answers with errors.
    assert!(server.received().len() >= 10);
}

#[test]
fn prompt_that_no_server_can_answer_fails_its_game_only() {
    let bad = game_seed(game_seed(5, 3), 2) >> 33;
    let rule = move |asked: &Received| match asked.seed() == bad {
        true => Answer::error(500, "a bug").after(Duration::from_millis(8)),
        false => utterance(asked),
    };
    let servers = [Server::start(rule), Server::start(rule)];
    let report: fn(&str) = |line| panic!("no server has failed: {line}");
    let mut player = pool(servers.iter().map(Server::base_url), EndpointConfig { report, ..config() });
    let (result, played) = try_play(&mut player, 30);
    result.unwrap();
    assert_eq!((played.finished.len(), played.failed.len(), played.failed[0].number), (29, 1, 3));
    assert!(played.failed[0].failure.to_string().starts_with("no answer after 8 tries"), "{:?}", played.failed[0]);
}

#[test]
fn busy_server_is_left_during_its_pause() {
    let busy = Server::start(|_| Answer::error(429, "slow down").header("Retry-After", "0.25"));
    let free = Server::start(utterance);
    let mut player = pool([busy.base_url(), free.base_url()], config());
    play(&mut player, 20);
    assert_eq!(free.received().len(), 120);
    // Four at once before the first pause, and some after each.
    assert!(busy.received().len() < 40, "{}", busy.received().len());
}

#[test]
fn each_url_keeps_the_maximum_rate() {
    let servers = [Server::start(utterance), Server::start(utterance)];
    let limited = EndpointConfig { requests_per_minute: Some(1200.0), ..config() };
    let mut player = pool(servers.iter().map(Server::base_url), limited);
    let began = Instant::now();
    play(&mut player, 10);
    // Twenty a second: twenty at once, then one every twentieth of a second.
    let most = servers.iter().map(|server| server.received().len()).max().unwrap();
    let least = Duration::from_millis(50) * u32::try_from(most - 20).unwrap();
    assert!(most >= 30 && began.elapsed() + Duration::from_millis(20) >= least, "{most} in {:?}", began.elapsed());
}

#[test]
fn dropping_a_pool_never_hangs() {
    let server = Server::start(|_| Answer::says("tea").after(Duration::from_secs(60)));
    let began = Instant::now();
    let mut player = pool([server.base_url(), format!("http://127.0.0.1:{}/v1", reserve_port())], config());
    let prompts = PromptSet::default();
    struct Brief(Instant);
    impl spag_game::GameSink for Brief {
        fn finished(&mut self, _: spag_game::FinishedGame) -> spag_game::Result<()> {
            Ok(())
        }
        fn failed(&mut self, _: spag_game::FailedGame) -> spag_game::Result<()> {
            Ok(())
        }
        fn should_continue(&mut self) -> bool {
            self.0.elapsed() < Duration::from_millis(150)
        }
    }
    let config = PlayConfig { games_in_flight: 20, ..PlayConfig::default() };
    play_games(&Taboo::new(&prompts), specs(20), Seats::SelfPlay(&mut player), &config, &mut Brief(began)).unwrap();
    drop(player);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}
