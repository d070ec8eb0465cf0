//! Rendezvous: mismatched ranks are named on every rank, and other connections are harmless.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::ranks::{self, Launch, report};
use candle_core::Device;
use spag_dist::{Error, JoinOptions, LaunchEnv, PortChoice, ProcessGroup, Rendezvous, TcpGroup, Token, join, join_on};
use spag_tests::reserve_port;

const LONG: Duration = Duration::from_secs(300);

/// The program of a rank.
pub(crate) fn rank() {
    match TcpGroup::join(&ranks::env(), &ranks::options()) {
        Ok(group) => report(group.barrier().map_or_else(|error| error.to_string(), |()| "joined".into())),
        Err(error) => report(error),
    }
}

fn all_report(launch: &Launch, expected: &str) {
    let ranks = launch.start();
    for rank in &ranks {
        let message = rank.receive(LONG);
        assert!(message.contains(expected), "rank {}: {message}", rank.rank);
    }
}

#[test]
fn another_world_size_is_named_on_every_rank() {
    let launch = Launch::new("join", 3).with_for(2, "WORLD_SIZE", 4).with_for(2, "LOCAL_WORLD_SIZE", 4);
    all_report(&launch, "rank 2 disagrees with rank 0: the number of ranks is 4 there and 3 on rank 0");
}

#[test]
fn another_version_is_named_on_every_rank() {
    let launch = Launch::new("join", 3).with_for(1, "TEST_VERSION", "0.0.9");
    all_report(&launch, "rank 1 disagrees with rank 0: the program's version is 0.0.9 there");
}

#[test]
fn duplicate_rank_is_named_on_every_rank() {
    let launch = Launch::new("join", 3).with_for(2, "RANK", 1);
    all_report(&launch, "two processes joined as rank 1");
}

#[test]
fn another_token_is_reported_on_both_sides() {
    let launch = Launch::new("join", 3)
        .with("SPAG_TOKEN", "0123456789abcdef")
        .with_for(2, "SPAG_TOKEN", "0123456789abcdeX")
        .with("TEST_JOIN_TIMEOUT", 2000);
    let ranks = launch.start();
    let message: Vec<String> = ranks.iter().map(|rank| rank.receive(LONG)).collect();
    assert!(message[2].contains("rank 2 and rank 0 have different tokens"), "{}", message[2]);
    for message in &message[..2] {
        assert!(message.starts_with("rank 2 did not join at 127.0.0.1"), "{message}");
        assert!(
            message.contains("a process as rank 2 connected from 127.0.0.1, but it has another token"),
            "{message}"
        );
    }
}

#[test]
fn missing_ranks_are_named_after_the_timeout() {
    let launch = Launch::new("join", 4).with("TEST_JOIN_TIMEOUT", 1500);
    let ranks: Vec<_> = [0, 2].into_iter().map(|rank| launch.start_rank(rank)).collect();
    for rank in &ranks {
        let message = rank.receive(LONG);
        assert!(message.starts_with("ranks 1, 3 did not join at 127.0.0.1"), "{message}");
    }
    let launch = Launch::new("join", 2).with("TEST_JOIN_TIMEOUT", 1000);
    let message = launch.start_rank(1).receive(LONG);
    assert!(message.contains("rank 1 did not reach rank 0") && message.contains("within 1 s"), "{message}");
}

#[test]
fn ranks_wait_for_a_late_rank0() {
    let launch = Launch::new("join", 3);
    let first: Vec<_> = [2, 1].into_iter().map(|rank| launch.start_rank(rank)).collect();
    std::thread::sleep(Duration::from_millis(700));
    let last = launch.start_rank(0);
    assert!(first.iter().chain([&last]).all(|rank| rank.receive(LONG) == "joined"));
}

#[test]
fn stale_token_file_is_replaced() {
    let launch = Launch::new("join", 2);
    // Rank 0 of an earlier run, killed while it waits, does not remove its token file.
    let earlier = launch.start_rank(0);
    let deadline = Instant::now() + LONG;
    while launch.token_files().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    earlier.signal("KILL");
    drop(earlier);
    assert_eq!(launch.token_files().len(), 1);
    let second = launch.start_rank(1);
    std::thread::sleep(Duration::from_millis(300));
    let first = launch.start_rank(0);
    assert_eq!((first.receive(LONG), second.receive(LONG)), ("joined".into(), "joined".into()));
    assert!(launch.token_files().is_empty());
}

/// Two starts of one run on one port, as by launchers on two machines.
fn starts(first: usize, second: usize) -> (Launch, Launch) {
    let of =
        |start: usize| Launch::new("join", 2).with("SPAG_TOKEN", "0123456789abcdef").with("SPAG_RESTART_COUNT", start);
    let (first, mut second) = (of(first), of(second));
    second.port = first.port;
    (first, second)
}

#[test]
fn rank_of_an_earlier_start_is_rejected() {
    let (old, new) = starts(0, 1);
    let first = new.start_rank(0);
    let message = old.start_rank(1).receive(LONG);
    assert!(message.contains("rank 1 was restarted 0 times and rank 0 1 times"), "{message}");
    let second = new.start_rank(1);
    assert_eq!((first.receive(LONG), second.receive(LONG)), ("joined".into(), "joined".into()));
}

#[test]
fn rank_of_a_later_start_ends_the_earlier_one_and_joins_its_own() {
    let (old, new) = starts(1, 2);
    let first = old.start_rank(0);
    let second = new.start_rank(1);
    let message = first.receive(LONG);
    assert!(message.contains("rank 1 was restarted 2 times and rank 0 1 times"), "{message}");
    let first = new.start_rank(0);
    assert_eq!((first.receive(LONG), second.receive(LONG)), ("joined".into(), "joined".into()));
}

#[test]
fn unauthenticated_connections_do_not_disturb_the_rendezvous() {
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
    // Silent connections, more than are kept; another protocol; an endless stream; single bytes.
    let silent: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let mut web = connect();
    web.write_all(b"GET / HTTP/1.1\r\nHost: rank-zero\r\nAccept: */*\r\nUser-Agent: somebody else\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    web.set_read_timeout(Some(LONG)).unwrap();
    let _ = web.read_to_end(&mut answer);
    assert!(answer.is_empty(), "a stranger received {answer:?}");
    let mut flood = connect();
    let flooding = std::thread::spawn(move || {
        let bytes = vec![0xa5; 1 << 16];
        (0..100).take_while(|_| flood.write_all(&bytes).is_ok()).count()
    });
    let mut slow = connect();
    let slowly = std::thread::spawn(move || {
        for byte in b"SPAGdist\x02\x00\x00\x00" {
            std::thread::sleep(Duration::from_millis(20));
            if slow.write_all(&[*byte]).is_err() {
                break;
            }
        }
        slow
    });
    // The right protocol with a wrong token.
    let mut liar = connect();
    let mut hello = b"SPAGdist\x02\x00\x00\x00\x01\x02\x00\x00\x00".to_vec();
    hello.resize(65, 7);
    liar.write_all(&hello).unwrap();
    let mut challenge = [0; 76];
    liar.read_exact(&mut challenge).unwrap();
    liar.write_all(&[1; 32]).unwrap();
    let others = [launch.start_rank(1), launch.start_rank(2)];
    let started = Instant::now();
    for rank in others.iter().chain([&first]) {
        assert_eq!(rank.receive(LONG), "joined");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(flooding.join().unwrap() < 100, "a flood was read to its end");
    drop((slowly.join().unwrap(), silent));
}

#[test]
fn several_machines_need_a_token_and_an_address() {
    let rendezvous = Some(Rendezvous { address: "127.0.0.1".into(), port: reserve_port() });
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
fn single_process_needs_no_rendezvous() {
    let (env, options) = (LaunchEnv::single(), JoinOptions::default());
    for group in [join(&env, &options).unwrap(), join_on(&env, &options, &Device::Cpu).unwrap()] {
        assert_eq!((group.rank(), group.size()), (0, 1));
        group.barrier().unwrap();
    }
    assert!(TcpGroup::join(&env, &options).is_err());
}

#[test]
fn join_options_read_port_and_token_from_the_environment() {
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

#[test]
fn join_options_read_timeouts_from_the_environment() {
    let detect = |pairs: &'static [(&'static str, &'static str)]| {
        JoinOptions::detect_with(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
    };
    let seconds = |options: JoinOptions| {
        let JoinOptions { join_timeout, heartbeat_timeout, collective_timeout, device_timeout, .. } = options;
        [join_timeout, heartbeat_timeout, collective_timeout, device_timeout].map(|timeout| timeout.as_secs())
    };
    assert_eq!(seconds(detect(&[]).unwrap()), [60, 10, 600, 600]);
    let all = [("SPAG_JOIN_TIMEOUT", "300"), ("SPAG_HEARTBEAT_TIMEOUT", "30"), ("SPAG_COLLECTIVE_TIMEOUT", "1800")];
    let found =
        JoinOptions::detect_with(|name| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()));
    assert_eq!(seconds(found.unwrap()), [300, 30, 1800, 1800]);
    // Shorter than the interval of heartbeats, and no number.
    for (name, value) in
        [("SPAG_HEARTBEAT_TIMEOUT", "2"), ("SPAG_JOIN_TIMEOUT", "0"), ("SPAG_COLLECTIVE_TIMEOUT", "10m")]
    {
        let error = JoinOptions::detect_with(|key| (key == name).then(|| value.to_owned())).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(value), "{error}");
    }
}
