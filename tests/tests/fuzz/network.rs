//! What comes from the network: messages between ranks, and replies of endpoints.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use spag_dist::queue::{Assignment, Queue};
use spag_dist::{JoinOptions, LaunchEnv};
use spag_game::taboo::Taboo;
use spag_game::{CollectedGames, GameSpec, PlayConfig, PromptSet, Seats, game_seed, play_games};
use spag_selfplay::{EndpointConfig, EndpointPlayer, EndpointSpec, PromptStyle, RetryConfig, Servers};
use spag_tests::reserve_port;

use crate::harness::Target;

/// Remembers a panic of any thread: a panic in a thread of a library does not reach the caller.
fn note_panics() -> Arc<AtomicUsize> {
    let panics = Arc::new(AtomicUsize::new(0));
    let (count, before) = (Arc::clone(&panics), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        // Other targets run in this process.
        if !spag_io::is_panic_caught() {
            count.fetch_add(1, Ordering::SeqCst);
        }
        before(info);
    }));
    panics
}

#[test]
fn endpoint_replies() {
    let body = r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "It is tea."}, "text": "It is tea.",
        "finish_reason": "stop"}], "usage": {"prompt_tokens": 10, "completion_tokens": 3}}"#;
    let reply = |status: &str, headers: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    let chunked =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let target = Target::new(
        "endpoint_replies",
        vec![
            reply("200 OK", "", body),
            chunked.into_bytes(),
            reply(
                "429 Too Many Requests",
                "Retry-After: 0\r\n",
                r#"{"error": {"message": "slow down", "type": "error"}}"#,
            ),
            reply("302 Found", "Location: http://127.0.0.1:9/v1\r\n", ""),
            reply("500 Internal Server Error", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "no"),
        ],
    );
    let panics = note_panics();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let (bytes, stop) = (Arc::new(std::sync::Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let answering = thread::spawn({
        let (bytes, stop) = (Arc::clone(&bytes), Arc::clone(&stop));
        move || {
            for stream in server.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                answer(stream, &bytes.lock().unwrap());
            }
        }
    });
    let ms = Duration::from_millis;
    target.run(|reply| {
        reply.clone_into(&mut bytes.lock().unwrap());
        let config = EndpointConfig {
            max_tokens: 8,
            in_flight: 1,
            timeout: ms(500),
            retry: RetryConfig { base: ms(1), cap: ms(2), retry_after_cap: ms(2), tries: 2, rest: ms(2) },
            ..EndpointConfig::default()
        };
        let base_url = format!("http://{address}/v1");
        let spec = EndpointSpec {
            servers: Servers::One(base_url),
            model: "m".into(),
            style: PromptStyle::Chat,
            key_variable: None,
        };
        let mut player = EndpointPlayer::new(spec, config).unwrap();
        let games =
            [GameSpec { number: 0, item: "tea".into(), max_turns: 1, seed: game_seed(5, 0), sampling_seed: None }];
        let mut sink = CollectedGames::default();
        let seats = Seats::SelfPlay(&mut player);
        let _ = play_games(&Taboo::new(&PromptSet::default()), games, seats, &PlayConfig::default(), &mut sink);
        for failed in &sink.failed {
            assert!(failed.failure.to_string().len() < 10_000, "the failure is short");
        }
        assert_eq!(panics.load(Ordering::SeqCst), 0, "a thread panicked");
    });
    stop.store(true, Ordering::SeqCst);
    drop(TcpStream::connect(address));
    answering.join().unwrap();
}

/// Reads a request and sends the bytes.
fn answer(mut stream: TcpStream, bytes: &[u8]) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    while !request.ends_with(b"}") {
        match stream.read(&mut buffer) {
            Ok(1..) => request.extend_from_slice(&buffer),
            _ => break,
        }
        while request.last() == Some(&0) {
            request.pop();
        }
    }
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut buffer);
}

/// Changes of the bytes between two ranks, from the input of the target: pairs of a position and a value, for each direction.
fn relay(mut from: TcpStream, mut to: TcpStream, changes: Vec<u8>) {
    let (mut buffer, mut at) = ([0; 4096], 0_usize);
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        for change in changes.chunks_exact(3) {
            let position = usize::from(u16::from_le_bytes([change[0], change[1]])) % 1500;
            if let Some(byte) = position.checked_sub(at).and_then(|index| buffer[..read].get_mut(index)) {
                *byte ^= change[2];
            }
        }
        at += read;
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// A rank that takes and finishes all items it is given. Errors are fine.
fn take_items(rank: usize, port: u16) -> Result<usize, spag_dist::Error> {
    let variables = |name: &str| {
        Some(match name {
            "RANK" | "LOCAL_RANK" => rank.to_string(),
            "WORLD_SIZE" | "LOCAL_WORLD_SIZE" => "2".into(),
            "MASTER_ADDR" => "127.0.0.1".into(),
            "MASTER_PORT" => port.to_string(),
            "SPAG_TOKEN" => "0123456789abcdef".into(),
            _ => return None,
        })
    };
    let env = LaunchEnv::detect_with(variables)?;
    let options = JoinOptions {
        join_timeout: Duration::from_millis(700),
        heartbeat_interval: Duration::from_millis(50),
        heartbeat_timeout: Duration::from_millis(500),
        ..JoinOptions::detect_with(variables)?
    };
    let queue = Queue::open(&env, &options, "fuzz", 8)?;
    let mut taken = 0;
    loop {
        match queue.next(2)? {
            Assignment::Items(items) => {
                taken += items.len();
                queue.done(&items)?;
            }
            Assignment::FinishHeld => {}
            Assignment::Finished => return Ok(taken),
        }
    }
}

#[test]
fn messages_between_ranks() {
    // Empty: nothing is changed and both ranks finish.
    let target = Target::new("messages_between_ranks", vec![Vec::new(), vec![8, 0, 1], vec![200, 1, 128, 44, 2, 7]]);
    let panics = note_panics();
    target.run(|changes| {
        let (port, proxy) = (reserve_port(), TcpListener::bind("127.0.0.1:0").unwrap());
        let through = proxy.local_addr().unwrap();
        let first = thread::spawn(move || take_items(0, port));
        let (half, changes) = (changes.len() / 2, changes.to_vec());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let between = thread::spawn(move || {
            let mut relays = Vec::new();
            for client in proxy.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                for (from, to, changes) in [(&client, &server, &changes[..half]), (&server, &client, &changes[half..])]
                {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { return };
                    let changes = changes.to_vec();
                    relays.push(thread::spawn(move || relay(from, to, changes)));
                }
            }
        });
        let second = take_items(1, through.port());
        let first = first.join();
        assert!(first.is_ok(), "rank 0 panicked");
        stop.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(through));
        between.join().unwrap();
        if let (Ok(Ok(first)), Ok(second)) = (first, second) {
            assert!(first + second >= 8, "{first} and {second} items");
        }
        assert_eq!(panics.load(Ordering::SeqCst), 0, "a thread panicked");
    });
}
