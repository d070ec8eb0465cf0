//! Which server of a pool gets the next turn.
//!
//! A plain proxy before the servers does not do this. It does not know which turns are of one game, so prompts miss the prefix
//! caches, nor which servers a turn has tried, so a turn that one server cannot answer is sent there again; and limits of requests
//! and `Retry-After` would hold for the pool instead of for each server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Games whose last server is remembered: at least as many, at most twice as many. More than can be in flight.
const REMEMBERED: usize = 1 << 16;

/// The load and health of the servers of one endpoint.
///
/// A turn goes to the server with the fewest open turns, or to the one that had the game before, whose prefix cache has
/// most of the prompt, unless that one has many more. A failed server gets no turns for a while, and then a single one, to
/// see whether it answers again.
pub(super) struct Scheduler {
    servers: Vec<Load>,
    /// Maximum open turns of a server.
    slots: usize,
    /// How long a failed server gets no turns.
    rest: Duration,
    homes: Homes,
}

struct Load {
    open: usize,
    /// Turns that it was given.
    given: u64,
    /// Turns that it answered.
    answered: u64,
    /// When it may be tried again, if it failed.
    failed_until: Option<Instant>,
}

/// The state of a server for one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The turn may be sent to it.
    Open,
    /// It asked for a pause: to be avoided.
    Paused,
    /// It has had all tries of this turn.
    Spent,
}

impl Scheduler {
    pub(super) fn new(servers: usize, slots: usize, rest: Duration) -> Self {
        let load = || Load { open: 0, given: 0, answered: 0, failed_until: None };
        Self { servers: (0..servers).map(|_| load()).collect(), slots, rest, homes: Homes::default() }
    }

    /// Opens a turn of a game on the best server. `None` if all that come into question have no free slot, or the turn has
    /// tried all.
    pub(super) fn open(&mut self, number: usize, standings: &[Standing], now: Instant) -> Option<usize> {
        let chosen = self.choose(number, standings, now)?;
        let load = self.servers.get_mut(chosen)?;
        load.open += 1;
        load.given += 1;
        self.homes.insert(number, chosen);
        Some(chosen)
    }

    fn choose(&self, number: usize, standings: &[Standing], now: Instant) -> Option<usize> {
        let all = || self.servers.iter().zip(standings).enumerate();
        let rested = |load: &Load| load.open == 0 && load.failed_until.is_some_and(|until| until <= now);
        let probe = all().find(|(_, (load, standing))| **standing == Standing::Open && rested(load));
        if let Some((server, _)) = probe {
            return Some(server);
        }
        let of = |standing: Standing, has_failed: bool| {
            let fits = move |load: &Load, own: Standing| own == standing && load.failed_until.is_some() == has_failed;
            all().filter(move |(_, (load, own))| fits(load, **own)).map(|(server, (load, _))| (server, load))
        };
        // A turn rather waits for a slot of a working server than going to a failed one.
        let best =
            [(Standing::Open, false), (Standing::Paused, false), (Standing::Open, true), (Standing::Paused, true)];
        let (standing, has_failed) =
            best.into_iter().find(|(standing, failed)| of(*standing, *failed).next().is_some())?;
        let free = || of(standing, has_failed).filter(|(_, load)| load.open < self.slots);
        let least = free().map(|(_, load)| load.open).min()?;
        let home = self.homes.get(number);
        let is_near = |load: &Load| load.open <= least + self.margin();
        let stays = free().find(|(server, load)| home == Some(*server) && is_near(load));
        stays.or_else(|| free().min_by_key(|(_, load)| (load.open, load.given))).map(|(server, _)| server)
    }

    /// How many more open turns a server may have than the least loaded one to keep its games.
    fn margin(&self) -> usize {
        (self.slots / 4).max(1)
    }

    /// A turn on a server has ended, with or without an answer.
    pub(super) fn close(&mut self, server: usize) {
        if let Some(load) = self.servers.get_mut(server) {
            load.open = load.open.saturating_sub(1);
        }
    }

    /// A server has answered. Returns whether it had failed before.
    pub(super) fn answered(&mut self, server: usize) -> bool {
        let Some(load) = self.servers.get_mut(server) else { return false };
        load.answered += 1;
        load.failed_until.take().is_some()
    }

    /// The number of answers of a server.
    pub(super) fn answers(&self, server: usize) -> u64 {
        self.servers.get(server).map_or(0, |load| load.answered)
    }

    /// A server has failed. Returns whether it worked before.
    pub(super) fn failed(&mut self, server: usize, now: Instant) -> bool {
        let Some(load) = self.servers.get_mut(server) else { return false };
        load.failed_until.replace(now + self.rest).is_none()
    }
}

/// The server that each game had last. Games from long ago are forgotten, since a server is not told when a game ends.
#[derive(Default)]
struct Homes {
    recent: HashMap<usize, usize>,
    older: HashMap<usize, usize>,
}

impl Homes {
    fn insert(&mut self, number: usize, server: usize) {
        if self.recent.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(number, server);
    }

    fn get(&self, number: usize) -> Option<usize> {
        self.recent.get(&number).or_else(|| self.older.get(&number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(30);
    const ALL: [Standing; 3] = [Standing::Open; 3];

    #[test]
    fn turns_go_to_the_least_loaded_server() {
        let (mut pool, now) = (Scheduler::new(3, 2, REST), Instant::now());
        let opened: Vec<_> = (0..7).map(|game| pool.open(game, &ALL, now)).collect();
        assert_eq!(opened, [Some(0), Some(1), Some(2), Some(0), Some(1), Some(2), None]);
        pool.close(1);
        assert_eq!(pool.open(7, &ALL, now), Some(1));
        // Among equals, the one that was given the fewest turns.
        pool.close(1);
        pool.close(2);
        assert_eq!(pool.open(8, &ALL, now), Some(2));
    }

    #[test]
    fn game_stays_on_its_server_up_to_the_margin() {
        let (mut pool, now) = (Scheduler::new(2, 8, REST), Instant::now());
        let all = &ALL[..2];
        assert_eq!((pool.open(5, all, now), pool.open(6, all, now)), (Some(0), Some(1)));
        pool.close(0);
        // The margin is 2: server 1 may have two more.
        assert_eq!((pool.open(6, all, now), pool.open(6, all, now)), (Some(1), Some(1)));
        assert_eq!(pool.open(6, all, now), Some(0), "server 1 has 3 and server 0 none");
        assert_eq!(pool.open(6, all, now), Some(0), "its new home");
    }

    #[test]
    fn failed_server_rests_and_is_tried_with_one_turn() {
        let (mut pool, now) = (Scheduler::new(2, 4, REST), Instant::now());
        let all = &ALL[..2];
        assert_eq!(pool.open(1, all, now), Some(0));
        assert!(pool.failed(0, now) && !pool.failed(0, now));
        pool.close(0);
        assert_eq!((0..5).map(|game| pool.open(game, all, now)).collect::<Vec<_>>(), {
            let mut expected = vec![Some(1); 4];
            expected.push(None);
            expected
        });
        let later = now + REST;
        assert_eq!((pool.open(9, all, later), pool.open(10, all, later)), (Some(0), None), "one turn tries it");
        pool.failed(0, later);
        pool.close(0);
        assert_eq!(pool.open(9, all, later), None);
        let again = later + REST;
        assert_eq!(pool.open(9, all, again), Some(0));
        assert!(pool.answered(0) && !pool.answered(0));
        assert_eq!((pool.open(10, all, again), pool.answers(0)), (Some(0), 2));
    }

    #[test]
    fn all_servers_are_used_when_all_have_failed() {
        let (mut pool, now) = (Scheduler::new(2, 2, REST), Instant::now());
        pool.failed(0, now);
        pool.failed(1, now);
        assert_eq!((0..4).filter_map(|game| pool.open(game, &ALL[..2], now)).collect::<Vec<_>>(), [0, 1, 0, 1]);
    }

    #[test]
    fn paused_servers_are_avoided_and_spent_ones_are_not_used() {
        use Standing::{Open, Paused, Spent};
        let (mut pool, now) = (Scheduler::new(2, 4, REST), Instant::now());
        assert_eq!(pool.open(1, &[Paused, Open], now), Some(1));
        assert_eq!(pool.open(1, &[Paused, Paused], now), Some(1));
        assert_eq!(pool.open(1, &[Paused, Spent], now), Some(0));
        assert_eq!(pool.open(1, &[Spent, Spent], now), None);
        // Rather a paused server than one that has failed.
        pool.failed(1, now);
        assert_eq!(pool.open(1, &[Paused, Open], now), Some(0));
        assert_eq!(pool.open(1, &[Spent, Open], now), Some(1));
    }

    #[test]
    fn homes_of_many_games_are_bounded() {
        let mut homes = Homes::default();
        (0..3 * REMEMBERED).for_each(|game| homes.insert(game, game % 3));
        assert!(homes.recent.len() + homes.older.len() <= 2 * REMEMBERED);
        let last = 3 * REMEMBERED - 1;
        assert_eq!((homes.get(last), homes.get(last - REMEMBERED), homes.get(0)), (Some(2), Some(1), None));
    }
}
