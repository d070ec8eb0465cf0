//! Coming together: who does not fit is named on every rank, and strangers do no harm.

mod ranks;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use candle_core::Device;
use ranks::{Launch, say};
use spag_dist::{Error, JoinOptions, LaunchEnv, PortChoice, ProcessGroup, Rendezvous, TcpGroup, Token, join, join_on};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn rank_process() {
    if ranks::job().is_none() {
        return;
    }
    match TcpGroup::join(&ranks::env(), &ranks::options()) {
        Ok(group) => say(group.barrier().map_or_else(|error| error.to_string(), |()| "joined".into())),
        Err(error) => say(error),
    }
}

fn all_say(launch: &Launch, expected: &str) {
    let ranks = launch.start();
    for rank in &ranks {
        let said = rank.hear(LONG);
        assert!(said.contains(expected), "rank {}: {said}", rank.rank);
    }
}

#[test]
fn another_number_of_ranks() {
    let launch = Launch::new("join", 3).with_for(2, "WORLD_SIZE", 4).with_for(2, "LOCAL_WORLD_SIZE", 4);
    all_say(&launch, "rank 2 disagrees with rank 0: the number of ranks is 4 there and 3 on rank 0");
}

#[test]
fn another_version() {
    let launch = Launch::new("join", 3).with_for(1, "TEST_VERSION", "0.0.9");
    all_say(&launch, "rank 1 disagrees with rank 0: the program's version is 0.0.9 there");
}

#[test]
fn a_rank_taken_twice() {
    let launch = Launch::new("join", 3).with_for(2, "RANK", 1);
    all_say(&launch, "two processes say that they are rank 1");
}

#[test]
fn another_token() {
    let launch = Launch::new("join", 3)
        .with("SPAG_TOKEN", "0123456789abcdef")
        .with_for(2, "SPAG_TOKEN", "0123456789abcdeX")
        .with("TEST_JOIN_TIMEOUT", 2000);
    let ranks = launch.start();
    let said: Vec<String> = ranks.iter().map(|rank| rank.hear(LONG)).collect();
    assert!(said[2].contains("rank 2 and rank 0 know different tokens"), "{}", said[2]);
    for said in &said[..2] {
        assert!(said.starts_with("rank 2 did not join at 127.0.0.1"), "{said}");
        assert!(said.contains("one that says it is rank 2 came from 127.0.0.1, but it knows another token"), "{said}");
    }
}

#[test]
fn one_that_never_comes() {
    let launch = Launch::new("join", 4).with("TEST_JOIN_TIMEOUT", 1500);
    let ranks: Vec<_> = [0, 2].into_iter().map(|rank| launch.start_rank(rank)).collect();
    for rank in &ranks {
        let said = rank.hear(LONG);
        assert!(said.starts_with("ranks 1, 3 did not join at 127.0.0.1"), "{said}");
    }
    let launch = Launch::new("join", 2).with("TEST_JOIN_TIMEOUT", 1000);
    let said = launch.start_rank(1).hear(LONG);
    assert!(said.contains("rank 1 did not reach rank 0") && said.contains("within 1 s"), "{said}");
}

#[test]
fn one_that_comes_late_finds_the_others_waiting() {
    let launch = Launch::new("join", 3);
    let first: Vec<_> = [2, 1].into_iter().map(|rank| launch.start_rank(rank)).collect();
    std::thread::sleep(Duration::from_millis(700));
    let last = launch.start_rank(0);
    assert!(first.iter().chain([&last]).all(|rank| rank.hear(LONG) == "joined"));
}

#[test]
fn a_stale_token_does_no_harm() {
    let launch = Launch::new("join", 2);
    // Rank 0 of an earlier run, killed while it waited: it leaves its token behind.
    let earlier = launch.start_rank(0);
    let deadline = Instant::now() + LONG;
    while launch.left_files().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    earlier.signal("-KILL");
    drop(earlier);
    assert_eq!(launch.left_files().len(), 1);
    let second = launch.start_rank(1);
    std::thread::sleep(Duration::from_millis(300));
    let first = launch.start_rank(0);
    assert_eq!((first.hear(LONG), second.hear(LONG)), ("joined".into(), "joined".into()));
    assert!(launch.left_files().is_empty());
}

/// Two starts of one run at one port, as with a launcher on each of two machines.
fn starts(first: usize, second: usize) -> (Launch, Launch) {
    let of =
        |start: usize| Launch::new("join", 2).with("SPAG_TOKEN", "0123456789abcdef").with("SPAG_RESTART_COUNT", start);
    let (first, mut second) = (of(first), of(second));
    second.port = first.port;
    (first, second)
}

#[test]
fn a_rank_of_an_earlier_start_is_turned_away() {
    let (old, new) = starts(0, 1);
    let first = new.start_rank(0);
    let said = old.start_rank(1).hear(LONG);
    assert!(said.contains("rank 1 was started again 0 times and rank 0 1 times"), "{said}");
    let second = new.start_rank(1);
    assert_eq!((first.hear(LONG), second.hear(LONG)), ("joined".into(), "joined".into()));
}

#[test]
fn a_rank_of_a_later_start_ends_the_earlier_one_and_waits_for_its_own() {
    let (old, new) = starts(1, 2);
    let first = old.start_rank(0);
    let second = new.start_rank(1);
    let said = first.hear(LONG);
    assert!(said.contains("rank 1 was started again 2 times and rank 0 1 times"), "{said}");
    let first = new.start_rank(0);
    assert_eq!((first.hear(LONG), second.hear(LONG)), ("joined".into(), "joined".into()));
}

#[test]
fn strangers_at_the_port_do_no_harm() {
    let launch = Launch::new("join", 3);
    let first = launch.start_rank(0);
    let connect = || {
        let deadline = Instant::now() + LONG;
        loop {
            match TcpStream::connect(("127.0.0.1", launch.port)) {
                Ok(stream) => return stream,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        }
    };
    // Silent ones, more than are kept; one that talks another protocol, one that sends without end, one byte a time.
    let silent: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let mut web = connect();
    web.write_all(b"GET / HTTP/1.1\r\nHost: rank-zero\r\nAccept: */*\r\nUser-Agent: somebody else\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    web.set_read_timeout(Some(LONG)).unwrap();
    let _ = web.read_to_end(&mut answer);
    assert!(answer.is_empty(), "a stranger was told {answer:?}");
    let mut flood = connect();
    let flooding = std::thread::spawn(move || {
        let bytes = vec![0xa5; 1 << 16];
        (0..100).take_while(|_| flood.write_all(&bytes).is_ok()).count()
    });
    let mut slow = connect();
    let slowly = std::thread::spawn(move || {
        for byte in b"SPAGdist\x01\x00\x00\x00" {
            std::thread::sleep(Duration::from_millis(20));
            if slow.write_all(&[*byte]).is_err() {
                break;
            }
        }
        slow
    });
    // One that knows the protocol but not the token.
    let mut liar = connect();
    let mut hello = b"SPAGdist\x01\x00\x00\x00\x01\x02\x00\x00\x00".to_vec();
    hello.resize(65, 7);
    liar.write_all(&hello).unwrap();
    let mut challenge = [0; 76];
    liar.read_exact(&mut challenge).unwrap();
    liar.write_all(&[1; 32]).unwrap();
    let others = [launch.start_rank(1), launch.start_rank(2)];
    let started = Instant::now();
    for rank in others.iter().chain([&first]) {
        assert_eq!(rank.hear(LONG), "joined");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(flooding.join().unwrap() < 100, "a flood was taken in");
    drop((slowly.join().unwrap(), silent));
}

#[test]
fn several_machines_need_a_token_and_an_address() {
    let rendezvous = Some(Rendezvous { address: "127.0.0.1".into(), port: ranks::free_port() });
    let env = LaunchEnv { rank: 1, world_size: 4, local_rank: 1, local_size: 2, rendezvous, ..LaunchEnv::single() };
    let options = JoinOptions { join_timeout: Duration::from_millis(300), ..JoinOptions::default() };
    let error = TcpGroup::join(&env, &options).unwrap_err();
    assert!(matches!(error, Error::Token(_)) && error.to_string().contains("openssl rand -hex 32"), "{error}");
    let options = JoinOptions { token: Some(Token::random().unwrap()), ..options };
    let first = LaunchEnv { rank: 0, ..env.clone() };
    let error = TcpGroup::join(&first, &options).unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error}");
    assert!(matches!(TcpGroup::join(&env, &options).unwrap_err(), Error::Unreachable { rank: 1, .. }));
}

#[test]
fn a_process_on_its_own_needs_nobody() {
    let (env, options) = (LaunchEnv::single(), JoinOptions::default());
    for group in [join(&env, &options).unwrap(), join_on(&env, &options, &Device::Cpu).unwrap()] {
        assert_eq!((group.rank(), group.size()), (0, 1));
        group.barrier().unwrap();
    }
    assert!(TcpGroup::join(&env, &options).is_err());
}

#[test]
fn the_environment_names_port_and_token() {
    let detect = |pairs: &'static [(&'static str, &'static str)]| {
        JoinOptions::detect_with(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
    };
    assert_eq!(detect(&[]).unwrap().port, PortChoice::Rendezvous);
    assert_eq!(detect(&[("TORCHELASTIC_USE_AGENT_STORE", "True")]).unwrap().port, PortChoice::AfterRendezvous);
    let both = detect(&[("TORCHELASTIC_USE_AGENT_STORE", "True"), ("SPAG_PORT", "1234")]).unwrap();
    assert_eq!(both.port, PortChoice::Fixed(1234));
    assert!(matches!(detect(&[("SPAG_PORT", "0")]), Err(Error::NotAPort { name: "SPAG_PORT", .. })));
    assert!(matches!(detect(&[("SPAG_TOKEN", "short")]), Err(Error::Token(_))));
    assert!(detect(&[("SPAG_TOKEN", "0123456789abcdef")]).unwrap().token.is_some());
}
