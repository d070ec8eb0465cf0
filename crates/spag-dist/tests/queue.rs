//! A work queue among real processes, some of which die.

mod ranks;

use std::collections::BTreeMap;
use std::time::Duration;

use ranks::{Launch, Rank, say};
use spag_dist::queue::{Queue, Turn};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn rank_process() {
    if ranks::job().is_none() {
        return;
    }
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let task = std::env::var("TEST_TASK").unwrap_or_default();
    let opened = Queue::open(&ranks::env(), &ranks::options(), &task, number("TEST_ITEMS"));
    let queue = match opened {
        Ok(queue) => queue,
        Err(error) => return say(error),
    };
    let pause = Duration::from_millis(number("TEST_PAUSE") as u64);
    let mut held = Vec::new();
    loop {
        match queue.next(16) {
            Ok(Turn::Items(items)) => {
                // Every second piece is asked for while the one before it is not done yet.
                let had_some = !held.is_empty();
                held.extend(items);
                if !had_some {
                    continue;
                }
            }
            Ok(Turn::FinishYours) => assert!(!held.is_empty()),
            Ok(Turn::Finished) => return say("finished"),
            Err(error) => return say(error),
        }
        for item in held.drain(..) {
            std::thread::sleep(pause);
            say(format!("item {item}"));
            if let Err(error) = queue.done(&[item]) {
                return say(error);
            }
        }
    }
}

fn launch(size: usize, items: usize, pause: usize) -> Launch {
    Launch::new("work", size).fast().with("TEST_ITEMS", items).with("TEST_PAUSE", pause)
}

/// The items that a rank did, and its last words.
fn listen(rank: &Rank) -> (Vec<usize>, String) {
    let mut items = Vec::new();
    loop {
        let said = rank.hear(LONG);
        match said.strip_prefix("item ") {
            Some(item) => items.push(item.parse().unwrap()),
            None => return (items, said),
        }
    }
}

/// How often each item was done by ranks that finish.
fn finished(ranks: &mut [Rank], without: &[usize]) -> (Vec<usize>, BTreeMap<usize, usize>) {
    let mut by_rank = Vec::new();
    let mut times = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| !without.contains(&rank.rank)) {
        let (items, end) = listen(rank);
        assert_eq!(end, "finished", "rank {}", rank.rank);
        by_rank.push(items.len());
        items.into_iter().for_each(|item| *times.entry(item).or_insert(0) += 1);
    }
    for rank in ranks.iter_mut().filter(|rank| !without.contains(&rank.rank)) {
        assert!(rank.ends_well(LONG), "rank {}", rank.rank);
    }
    (by_rank, times)
}

#[test]
fn every_item_is_done_once_and_all_ranks_work() {
    for size in [1, 2, 4] {
        let launch = launch(size, 300, 2);
        let (by_rank, times) = finished(&mut launch.start(), &[]);
        assert_eq!(times, (0..300).map(|item| (item, 1)).collect(), "{size} ranks");
        assert!(by_rank.iter().all(|count| *count > 0), "{by_rank:?}");
        assert!(launch.left_files().is_empty());
    }
}

#[test]
fn nothing_to_do_ends_at_once_and_few_items_do_not_leave_ranks_behind() {
    for items in [0, 1, 3] {
        let (_, times) = finished(&mut launch(4, items, 1).start(), &[]);
        assert_eq!(times.len(), items);
    }
}

#[test]
fn what_a_dead_rank_had_is_done_by_others() {
    for signal in ["-KILL", "-STOP"] {
        let launch = launch(4, 200, 10);
        let mut ranks = launch.start();
        // In the middle of its work: it has reported something and has something left.
        let first: Vec<String> = [1, 3].into_iter().map(|rank: usize| ranks[rank].hear(LONG)).collect();
        assert!(first.iter().all(|said| said.starts_with("item ")), "{first:?}");
        ranks[1].signal(signal);
        ranks[3].signal(signal);
        let done_by_dead: Vec<usize> = first.iter().map(|said| said["item ".len()..].parse().unwrap()).collect();
        let (_, times) = finished(&mut ranks, &[1, 3]);
        // What the dead ones said they did before they died need not have reached rank 0.
        let missing: Vec<usize> = (0..200).filter(|item| !times.contains_key(item)).collect();
        let (mut one, mut other) = (ranks.remove(1), ranks.remove(2));
        let mut done_by_dead = done_by_dead;
        for dead in [&mut one, &mut other] {
            dead.signal("-KILL");
            done_by_dead.extend(listen(dead).0);
        }
        assert!(missing.iter().all(|item| done_by_dead.contains(item)), "{signal}: {missing:?} {done_by_dead:?}");
        assert!(times.values().all(|times| *times == 1), "{times:?}");
    }
}

#[test]
fn a_rank_taken_for_dead_hears_of_it_when_it_goes_on() {
    let launch = launch(2, 300, 20);
    let mut ranks = launch.start();
    assert!(ranks[1].hear(LONG).starts_with("item "));
    ranks[1].signal("-STOP");
    std::thread::sleep(Duration::from_millis(3500));
    ranks[1].signal("-CONT");
    let (_, end) = listen(&ranks[1]);
    assert!(end.contains("lost rank 1: rank 0 gave its work to others: nothing was heard of it for 2.5 s"), "{end}");
    let (_, times) = finished(&mut ranks[..1], &[]);
    assert!(times.len() > 150);
}

#[test]
fn without_rank_zero_the_others_end_and_say_so() {
    for signal in ["-KILL", "-STOP"] {
        let launch = launch(3, 1000, 10);
        let ranks = launch.start();
        for rank in &ranks {
            assert!(rank.hear(LONG).starts_with("item "));
        }
        ranks[0].signal(signal);
        for rank in &ranks[1..] {
            let (_, end) = listen(rank);
            assert!(end.starts_with("lost rank 0: "), "{signal}: {end}");
        }
    }
}

#[test]
fn a_rank_with_another_list_is_named_on_every_rank() {
    let launch = launch(3, 100_000, 1).with("TEST_TASK", "hash 1").with_for(2, "TEST_TASK", "hash 2");
    for rank in &launch.start() {
        let (_, end) = listen(rank);
        assert!(end.contains("rank 2 disagrees with rank 0: the work is hash 2 there and hash 1 on rank 0"), "{end}");
    }
}

#[test]
fn a_rank_that_comes_late_is_waited_for() {
    let launch = launch(2, 3, 1);
    let first = launch.start_rank(0);
    let (items, end) = listen(&first);
    assert_eq!((items.len(), end.as_str()), (3, "finished"));
    let second = launch.start_rank(1);
    assert_eq!(listen(&second), (vec![], "finished".to_owned()));
    for mut rank in [first, second] {
        assert!(rank.ends_well(LONG));
    }
}
