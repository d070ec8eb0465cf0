//! The NUMA nodes of this machine and its NVIDIA GPUs, as Linux describes them below `/sys`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::cpu_list::CpuList;

/// NVIDIA's number among the vendors of PCI devices.
const NVIDIA: &str = "0x10de";
/// The first digits of the classes of PCI devices that are displays, of which GPUs for computing are a kind.
const DISPLAY: &str = "0x03";

/// What is known of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    /// The CPUs of each node that has any, by its number.
    pub(super) nodes: BTreeMap<usize, CpuList>,
    /// The node of each GPU, in the order of their addresses, which is that of CUDA for GPUs of one kind. `None` if it is not known.
    pub(super) gpus: Vec<Option<usize>>,
}

impl Topology {
    /// Reads the folder `sys`. What is missing or unreadable, as on other systems and in some containers, counts as none.
    pub(super) fn read(sys: &Path) -> Self {
        let nodes = names(&sys.join("devices/system/node")).into_iter().filter_map(|name| {
            let number = name.strip_prefix("node")?.parse().ok()?;
            let cpus: CpuList = text(&sys.join("devices/system/node").join(&name).join("cpulist"))?.parse().ok()?;
            (!cpus.0.is_empty()).then_some((number, cpus))
        });
        let devices = sys.join("bus/pci/devices");
        let gpus = names(&devices).into_iter().filter_map(|address| {
            let of = |file: &str| text(&devices.join(&address).join(file));
            let is_gpu = of("vendor")? == NVIDIA && of("class")?.starts_with(DISPLAY);
            // -1 if the firmware does not say.
            is_gpu.then(|| of("numa_node").and_then(|node| node.parse().ok()))
        });
        Self { nodes: nodes.collect(), gpus: gpus.collect() }
    }
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn text(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}
