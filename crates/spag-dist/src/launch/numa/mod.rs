//! Binds ranks to NUMA nodes: a rank's memory is that of the processors that it runs on, and its GPU is attached to them.

mod affinity;
mod cpu_list;
mod topology;

use std::collections::BTreeSet;
use std::path::Path;

use clap::ValueEnum;

pub(super) use affinity::bind;
pub(super) use cpu_list::CpuList;
use topology::Topology;

/// Which NUMA nodes ranks run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Numa {
    /// That of the rank's GPU if this machine has an NVIDIA GPU for each rank, else as spread.
    Auto,
    /// The nodes are shared out evenly.
    Spread,
    /// Any: the system chooses.
    None,
}

/// The CPUs of each of `ranks` ranks; `None` if they may run anywhere: with one rank or one node, or if no assignment is even.
/// `visible` is CUDA_VISIBLE_DEVICES.
pub(super) fn cpus_of_ranks(numa: Numa, sys: &Path, ranks: usize, visible: Option<&str>) -> Option<Vec<CpuList>> {
    if numa == Numa::None || ranks == 1 {
        return None;
    }
    let topology = Topology::read(sys);
    let assigned = assign(&topology, numa, ranks, visible)?;
    // A scheduler or a container may have taken some away.
    let allowed = affinity::allowed();
    let cpus_of = |nodes: &BTreeSet<usize>| {
        let all = nodes.iter().filter_map(|node| topology.nodes.get(node)).flat_map(|cpus| &cpus.0);
        CpuList(all.filter(|cpu| allowed.as_ref().is_none_or(|allowed| allowed.0.contains(cpu))).copied().collect())
    };
    let all: Vec<CpuList> = assigned.iter().map(cpus_of).collect();
    all.iter().all(|cpus| !cpus.0.is_empty()).then_some(all)
}

/// The nodes of each rank.
fn assign(topology: &Topology, numa: Numa, ranks: usize, visible: Option<&str>) -> Option<Vec<BTreeSet<usize>>> {
    if topology.nodes.len() < 2 {
        return None;
    }
    if numa == Numa::Auto && topology.gpus.len() >= ranks {
        return of_gpus(topology, ranks, visible);
    }
    let nodes: Vec<usize> = topology.nodes.keys().copied().collect();
    let count = nodes.len();
    let is_even = ranks.is_multiple_of(count) || count.is_multiple_of(ranks);
    let share = |rank: usize| {
        let (first, end) = (rank * count / ranks, (rank + 1) * count / ranks);
        nodes[first..end.max(first + 1)].iter().copied().collect()
    };
    is_even.then(|| (0..ranks).map(share).collect())
}

/// The node of each rank's GPU, whose number among the visible ones is that of the rank.
fn of_gpus(topology: &Topology, ranks: usize, visible: Option<&str>) -> Option<Vec<BTreeSet<usize>>> {
    let numbers: Vec<usize> = match visible {
        None => (0..ranks).collect(),
        // Names of GPUs other than numbers tell no place.
        Some(list) => list.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?,
    };
    let node = |rank: usize| {
        let node = topology.gpus.get(*numbers.get(rank)?).copied().flatten()?;
        topology.nodes.contains_key(&node).then(|| BTreeSet::from([node]))
    };
    (0..ranks).map(node).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder as `/sys`, with nodes by their CPUs, and the vendor, class and node of PCI devices.
    fn sys(nodes: &[&str], devices: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (number, cpus) in nodes.iter().enumerate() {
            let node = folder.path().join(format!("devices/system/node/node{number}"));
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join("cpulist"), format!("{cpus}\n")).unwrap();
        }
        for (number, (vendor, class, node)) in devices.iter().enumerate() {
            let device = folder.path().join(format!("bus/pci/devices/0000:{number:02x}:00.0"));
            fs::create_dir_all(&device).unwrap();
            for (file, text) in [("vendor", vendor), ("class", class), ("numa_node", node)] {
                fs::write(device.join(file), format!("{text}\n")).unwrap();
            }
        }
        folder
    }

    fn nodes_of(sys: &tempfile::TempDir, numa: Numa, ranks: usize, visible: Option<&str>) -> Option<Vec<Vec<usize>>> {
        let assigned = assign(&Topology::read(sys.path()), numa, ranks, visible)?;
        Some(assigned.into_iter().map(|nodes| nodes.into_iter().collect()).collect())
    }

    #[test]
    fn ranks_are_on_the_nodes_of_their_gpus() {
        let gpu = |node| ("0x10de", "0x030200", node);
        let others = [("0x8086", "0x020000", "0"), ("0x10de", "0x068000", "0")];
        let of = |numa, ranks, visible| {
            nodes_of(
                &sys(&["0-1", "2-3"], &[&others[..], &["1", "1", "0", "0"].map(gpu)].concat()),
                numa,
                ranks,
                visible,
            )
        };
        assert_eq!(of(Numa::Auto, 4, None), Some(vec![vec![1], vec![1], vec![0], vec![0]]));
        assert_eq!(of(Numa::Auto, 2, Some("3,0")), Some(vec![vec![0], vec![1]]));
        assert_eq!(of(Numa::Auto, 2, Some("GPU-1f,GPU-2a")), None);
        assert_eq!(of(Numa::Auto, 2, Some("3")), None);
        assert_eq!(of(Numa::Spread, 4, None), Some(vec![vec![0], vec![0], vec![1], vec![1]]));
        // More ranks than GPUs compute on the CPUs.
        assert_eq!(of(Numa::Auto, 6, None), of(Numa::Spread, 6, None));
        let unknown = sys(&["0-1", "2-3"], &["1", "-1"].map(gpu));
        assert_eq!(nodes_of(&unknown, Numa::Auto, 2, None), None);
    }

    #[test]
    fn nodes_are_shared_out_if_that_is_even() {
        // One node has memory alone.
        let four = sys(&["0-1", "2-3", "", "4-5", "6-7"], &[]);
        let of = |ranks| nodes_of(&four, Numa::Auto, ranks, None);
        assert_eq!(of(2), Some(vec![vec![0, 1], vec![3, 4]]));
        assert_eq!(of(4), Some(vec![vec![0], vec![1], vec![3], vec![4]]));
        assert_eq!(of(8).unwrap()[5], [3]);
        assert_eq!([of(3), of(6)], [None, None]);
        for one in [sys(&["0-7"], &[]), sys(&[], &[])] {
            assert_eq!(nodes_of(&one, Numa::Auto, 4, None), None);
        }
    }

    #[test]
    fn one_rank_and_none_are_not_bound() {
        let two = sys(&["0", "1"], &[]);
        assert_eq!(cpus_of_ranks(Numa::None, two.path(), 2, None), None);
        assert_eq!(cpus_of_ranks(Numa::Spread, two.path(), 1, None), None);
        // No rank is bound to CPUs that this process may not use.
        let absent = sys(&["0", "60000"], &[]);
        if affinity::allowed().is_some() {
            assert_eq!(cpus_of_ranks(Numa::Spread, absent.path(), 2, None), None);
        }
    }
}
