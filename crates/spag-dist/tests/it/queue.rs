//! The work queue with real processes, some of which die.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::ranks::{self, Launch, Rank, report};
use spag_dist::queue::{Assignment, Queue};
use spag_dist::{ProcessGroup, TcpGroup};
use spag_tests::wait_until;

const LONG: Duration = Duration::from_secs(300);

/// The program of a rank.
pub(crate) fn rank(job: &str) {
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let task = std::env::var("TEST_TASK").unwrap_or_default();
    let (env, options, items) = (ranks::env(), ranks::options(), number("TEST_ITEMS"));
    let group = (job == "beside").then(|| TcpGroup::join(&env, &options).unwrap());
    let opened = match &group {
        Some(group) => Queue::open_beside(group, &env, &options, &task, items),
        None => Queue::open(&env, &options, &task, items),
    };
    let queue = match opened {
        Ok(queue) => queue,
        Err(error) => return report(error),
    };
    let pause = Duration::from_millis(number("TEST_PAUSE") as u64);
    let mut meeting = std::env::var_os("TEST_MEETING");
    let mut held = Vec::new();
    loop {
        match queue.next(16) {
            Ok(Assignment::Items(items)) => {
                // Requests every second piece while the previous one is unfinished.
                let had_items = !held.is_empty();
                held.extend(items);
                if !had_items {
                    continue;
                }
            }
            Ok(Assignment::FinishHeld) => assert!(!held.is_empty()),
            Ok(Assignment::Finished) => {
                group.iter().for_each(|group| group.barrier().unwrap());
                return report("finished");
            }
            Err(error) => return report(error),
        }
        if let Some(folder) = meeting.take() {
            std::fs::write(Path::new(&folder).join(env.rank.to_string()), "").unwrap();
            wait_until("all ranks hold items", LONG, || std::fs::read_dir(&folder).unwrap().count() == env.world_size);
        }
        for item in held.drain(..) {
            std::thread::sleep(pause);
            report(format!("item {item}"));
            if let Err(error) = queue.done(&[item]) {
                return report(error);
            }
        }
    }
}

fn launch(size: usize, items: usize, pause: usize) -> Launch {
    Launch::new("work", size).fast().with("TEST_ITEMS", items).with("TEST_PAUSE", pause)
}

/// The items done by a rank, and its last report.
fn reports(rank: &Rank) -> (Vec<usize>, String) {
    let mut items = Vec::new();
    loop {
        let message = rank.receive(LONG);
        match message.strip_prefix("item ") {
            Some(item) => items.push(item.parse().unwrap()),
            None => return (items, message),
        }
    }
}

/// The number of items done by each rank, and how often each item was done, for ranks that finish.
fn finished(ranks: &mut [Rank], without: &[usize]) -> (Vec<usize>, BTreeMap<usize, usize>) {
    let mut by_rank = Vec::new();
    let mut times = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| !without.contains(&rank.rank)) {
        let (items, end) = reports(rank);
        assert_eq!(end, "finished", "rank {}", rank.rank);
        by_rank.push(items.len());
        items.into_iter().for_each(|item| *times.entry(item).or_insert(0) += 1);
    }
    for rank in ranks.iter_mut().filter(|rank| !without.contains(&rank.rank)) {
        assert!(rank.succeeds(LONG), "rank {}", rank.rank);
    }
    (by_rank, times)
}

#[test]
fn items_are_done_once_and_by_all_ranks() {
    for size in [1, 2, 4] {
        // No rank does an item until all ranks hold some.
        let meeting = tempfile::tempdir().unwrap();
        let launch = launch(size, 300, 2).with("TEST_MEETING", meeting.path().display());
        let (by_rank, times) = finished(&mut launch.start(), &[]);
        assert_eq!(times, (0..300).map(|item| (item, 1)).collect(), "{size} ranks");
        assert!(by_rank.iter().all(|count| *count > 0), "{by_rank:?}");
        assert!(launch.token_files().is_empty());
    }
}

#[test]
fn queue_opens_beside_a_group() {
    let mut launch = launch(3, 60, 1);
    launch.job = "beside";
    let (_, times) = finished(&mut launch.start(), &[]);
    assert_eq!(times, (0..60).map(|item| (item, 1)).collect());
    assert!(launch.token_files().is_empty());
}

#[test]
fn short_lists_finish_on_all_ranks() {
    for items in [0, 1, 3] {
        let (_, times) = finished(&mut launch(4, items, 1).start(), &[]);
        assert_eq!(times.len(), items);
    }
}

#[test]
fn items_of_dead_ranks_are_reassigned() {
    for signal in ["KILL", "STOP"] {
        let launch = launch(4, 200, 10);
        let mut ranks = launch.start();
        // Each has reported an item and holds others.
        let first: Vec<String> = [1, 3].into_iter().map(|rank: usize| ranks[rank].receive(LONG)).collect();
        assert!(first.iter().all(|message| message.starts_with("item ")), "{first:?}");
        ranks[1].signal(signal);
        ranks[3].signal(signal);
        let done_by_dead: Vec<usize> = first.iter().map(|message| message["item ".len()..].parse().unwrap()).collect();
        let (_, times) = finished(&mut ranks, &[1, 3]);
        // Items done by the dead ranks may not have been reported to rank 0.
        let missing: Vec<usize> = (0..200).filter(|item| !times.contains_key(item)).collect();
        let (mut one, mut other) = (ranks.remove(1), ranks.remove(2));
        let mut done_by_dead = done_by_dead;
        for dead in [&mut one, &mut other] {
            dead.signal("KILL");
            done_by_dead.extend(reports(dead).0);
        }
        assert!(missing.iter().all(|item| done_by_dead.contains(item)), "{signal}: {missing:?} {done_by_dead:?}");
        assert!(times.values().all(|times| *times == 1), "{times:?}");
    }
}

#[test]
fn rank_considered_dead_fails_when_it_continues() {
    let launch = launch(2, 300, 20);
    let mut ranks = launch.start();
    assert!(ranks[1].receive(LONG).starts_with("item "));
    ranks[1].signal("STOP");
    std::thread::sleep(Duration::from_millis(3500));
    ranks[1].signal("CONT");
    let (_, end) = reports(&ranks[1]);
    assert!(end.contains("lost rank 1: rank 0 reassigned its items: no heartbeat for 2.5 s"), "{end}");
    let (_, times) = finished(&mut ranks[..1], &[]);
    assert!(times.len() > 150);
}

#[test]
fn loss_of_rank0_ends_the_others() {
    for signal in ["KILL", "STOP"] {
        let launch = launch(3, 1000, 10);
        let ranks = launch.start();
        for rank in &ranks {
            assert!(rank.receive(LONG).starts_with("item "));
        }
        ranks[0].signal(signal);
        for rank in &ranks[1..] {
            let (_, end) = reports(rank);
            assert!(end.starts_with("lost rank 0: "), "{signal}: {end}");
        }
    }
}

#[test]
fn rank_with_another_list_is_named_on_every_rank() {
    let launch = launch(3, 100_000, 1).with("TEST_TASK", "hash 1").with_for(2, "TEST_TASK", "hash 2");
    for rank in &launch.start() {
        let (_, end) = reports(rank);
        assert!(end.contains("rank 2 disagrees with rank 0: the work is hash 2 there and hash 1 on rank 0"), "{end}");
    }
}

#[test]
fn rank0_waits_for_late_ranks() {
    let launch = launch(2, 3, 1);
    let first = launch.start_rank(0);
    let (items, end) = reports(&first);
    assert_eq!((items.len(), end.as_str()), (3, "finished"));
    let second = launch.start_rank(1);
    assert_eq!(reports(&second), (vec![], "finished".to_owned()));
    for mut rank in [first, second] {
        assert!(rank.succeeds(LONG));
    }
}
