//! Which ranks share a host, and the rings that follow from it.
//!
//! Legend: H hosts of L ranks each, N = H·L ranks. Rank r is the (r mod L)-th of host r / L. The ring within a host has its L ranks;
//! the ring between hosts has the H ranks with one local rank. The ring of all ranks passes a host boundary between the last rank
//! of a host and the first of the next.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::tcp::RingPosition;
use crate::{Error, LaunchEnv, ProcessGroup, Result, Traffic};

/// The groups of a rank in a run on several hosts. They fail together with the group of all ranks, and their collectives are
/// ordered with its collectives.
#[derive(Clone)]
pub struct HostGroups {
    /// The ranks of this rank's host.
    pub within: Arc<dyn ProcessGroup>,
    /// The ranks with this rank's local rank, one on each host.
    pub between: Arc<dyn ProcessGroup>,
}

/// The ranks that a collective runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All.
    World = 0,
    /// Those of the host.
    WithinHost = 1,
    /// Those with the same local rank.
    BetweenHosts = 2,
}

/// What a rank has moved in each [`Scope`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScopeTraffic([Traffic; 3]);

impl ScopeTraffic {
    pub(crate) fn add(&mut self, scope: Scope, moved: Traffic) {
        let of_scope = &mut self.0[scope as usize];
        *of_scope = of_scope.plus(moved);
    }

    /// The traffic of a scope; the ring of all ranks has that of all.
    pub(crate) fn of(self, scope: Scope) -> Traffic {
        match scope {
            Scope::World => self.0.into_iter().fold(Traffic::default(), Traffic::plus),
            scope => self.0[scope as usize],
        }
    }
}

/// A rank's place on its host, as its launcher gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostPlace {
    local_rank: usize,
    local_size: usize,
}

impl HostPlace {
    pub(crate) fn of(env: &LaunchEnv) -> Self {
        Self { local_rank: env.local_rank, local_size: env.local_size }
    }
}

/// The places of all ranks, in rank order.
#[derive(Clone, Debug)]
pub(crate) struct HostPlaces(Vec<HostPlace>);

impl HostPlaces {
    pub(crate) fn new(places: Vec<HostPlace>) -> Self {
        Self(places)
    }

    /// Of `size` ranks that follow each other on hosts of `local_size`; the last host may have fewer.
    pub(crate) fn numbered_by_host(size: usize, local_size: usize) -> Self {
        let place = |rank: usize| {
            let local_rank = rank % local_size;
            HostPlace { local_rank, local_size: local_size.min(size - (rank - local_rank)) }
        };
        Self((0..size).map(place).collect())
    }

    /// Ranks of each host.
    ///
    /// # Errors
    /// [`Error::UnequalHosts`], or [`Error::HostOrder`] if the ranks of a host do not follow each other.
    pub(crate) fn ranks_per_host(&self) -> Result<usize> {
        let first = self.0.first().map_or(1, |place| place.local_size.max(1));
        for (rank, place) in self.0.iter().enumerate() {
            if place.local_size != first {
                return Err(Error::UnequalHosts { rank, theirs: place.local_size, first });
            }
            if place.local_rank != rank % first {
                return Err(Error::HostOrder { rank, local_rank: place.local_rank, expected: rank % first });
            }
        }
        match self.0.len() % first {
            0 => Ok(first),
            theirs => Err(Error::UnequalHosts { rank: self.0.len() - 1, theirs, first }),
        }
    }

    /// The rings of a rank: that of all ranks, and if there are several hosts of several ranks each, those within its host and
    /// between hosts. Hosts of unequal size have the first only.
    pub(crate) fn rings_of(&self, rank: usize) -> Vec<Members> {
        let size = self.0.len();
        let mut rings = vec![self.members(Scope::World, (0..size).collect(), rank)];
        if let Ok(local) = self.ranks_per_host()
            && local > 1
            && local < size
        {
            let first = rank - rank % local;
            rings.push(self.members(Scope::WithinHost, (first..first + local).collect(), rank));
            rings.push(self.members(Scope::BetweenHosts, (rank % local..size).step_by(local).collect(), rank));
        }
        rings
    }

    fn members(&self, scope: Scope, ranks: Vec<usize>, rank: usize) -> Members {
        let own = ranks.iter().position(|member| *member == rank).unwrap_or(0);
        let mut members = Members { scope, ranks, own, next_is_elsewhere: false, previous_is_elsewhere: false };
        // The first rank of a rank's host, also if hosts are of unequal size.
        let host = |rank: usize| self.0.get(rank).map(|place| rank.saturating_sub(place.local_rank));
        members.next_is_elsewhere = host(members.next()) != host(rank);
        members.previous_is_elsewhere = host(members.previous()) != host(rank);
        members
    }
}

/// The ranks of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) scope: Scope,
    /// Of the world, in the order of the ring.
    ranks: Vec<usize>,
    /// The place of this rank among them.
    own: usize,
    next_is_elsewhere: bool,
    previous_is_elsewhere: bool,
}

impl Members {
    /// This rank's position in the ring.
    pub(crate) fn position(&self) -> RingPosition {
        RingPosition { rank: self.own, size: self.ranks.len() }
    }

    /// The world's ranks.
    pub(crate) fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// The next rank of the ring, by its rank in the world.
    pub(crate) fn next(&self) -> usize {
        self.ranks[self.position().next()]
    }

    /// The previous rank of the ring, by its rank in the world.
    pub(crate) fn previous(&self) -> usize {
        self.ranks[self.position().previous()]
    }

    /// The traffic of bytes sent to the next rank and received from the previous one.
    pub(crate) fn traffic(&self, sent: u64, received: u64) -> Traffic {
        let elsewhere = |is: bool, bytes: u64| if is { bytes } else { 0 };
        Traffic {
            sent,
            received,
            sent_between_hosts: elsewhere(self.next_is_elsewhere, sent),
            received_between_hosts: elsewhere(self.previous_is_elsewhere, received),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts with these numbers of ranks, which follow each other.
    fn places(hosts: &[usize]) -> HostPlaces {
        let of_host = |local_size: &usize| {
            let local_size = *local_size;
            (0..local_size).map(move |local_rank| HostPlace { local_rank, local_size })
        };
        HostPlaces::new(hosts.iter().flat_map(of_host).collect())
    }

    #[test]
    fn rings_within_and_between_two_hosts_of_four() {
        let [world, within, between] = &places(&[4, 4]).rings_of(5)[..] else { panic!("three rings") };
        assert_eq!((world.position().rank, world.position().size), (5, 8));
        assert_eq!((within.ranks(), within.next(), within.previous()), (&[4, 5, 6, 7][..], 6, 4));
        assert_eq!((between.ranks(), between.next(), between.previous()), (&[1, 5][..], 1, 1));
        let moved = |members: &Members| {
            (members.traffic(10, 7).sent_between_hosts, members.traffic(10, 7).received_between_hosts)
        };
        assert_eq!((moved(world), moved(within), moved(between)), ((0, 0), (0, 0), (10, 7)));
        // The ring of all ranks leaves a host at its last rank.
        let boundary: Vec<_> = (0..8).map(|rank| moved(&places(&[4, 4]).rings_of(rank)[0])).collect();
        assert_eq!(boundary, [(0, 7), (0, 0), (0, 0), (10, 0), (0, 7), (0, 0), (0, 0), (10, 0)]);
    }

    #[test]
    fn one_host_and_hosts_of_one_rank_have_one_ring() {
        assert_eq!((places(&[4]).rings_of(2).len(), places(&[4]).ranks_per_host()), (1, Ok(4)));
        assert_eq!((places(&[1, 1, 1]).rings_of(2).len(), places(&[1, 1, 1]).ranks_per_host()), (1, Ok(1)));
    }

    #[test]
    fn unequal_hosts_and_ranks_out_of_order_are_named() {
        let unequal = places(&[4, 3]);
        assert_eq!(unequal.ranks_per_host(), Err(Error::UnequalHosts { rank: 4, theirs: 3, first: 4 }));
        assert_eq!(unequal.rings_of(0).len(), 1);
        assert_eq!(unequal.rings_of(3)[0].traffic(1, 1).sent_between_hosts, 1);
        // A launcher that gives all hosts the size of the first.
        let mut claimed = places(&[2, 2]);
        claimed.0.pop();
        assert_eq!(claimed.ranks_per_host(), Err(Error::UnequalHosts { rank: 2, theirs: 1, first: 2 }));
        let mut dealt_in_turn = places(&[2, 2]);
        dealt_in_turn.0.swap(1, 2);
        assert_eq!(dealt_in_turn.ranks_per_host(), Err(Error::HostOrder { rank: 1, local_rank: 0, expected: 1 }));
    }
}
