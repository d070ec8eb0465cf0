//! Graphs. Instantiating a graph returns the graph itself.

use std::ffi::c_void;

use crate::call::{calls, handle, number, put};
use crate::machine::machine;
use crate::result::Error;

fn destroy(graph: *mut c_void) -> Result<(), Error> {
    let removed = machine().graphs.remove(&number(graph));
    // Its memory is freed without holding the machine's lock.
    removed.map(drop).ok_or(Error::InvalidHandle)
}

calls! {
    fn cuGraphInstantiateWithFlags(instance: *mut *mut c_void, graph: *mut c_void, _flags: u64) {
        let mut machine = machine();
        machine.need_context()?;
        let graph = machine.graphs.get(&number(graph)).ok_or(Error::InvalidHandle)?.clone();
        let new = machine.handle();
        machine.graphs.insert(new, graph);
        put(instance, handle(new))
    }

    fn cuGraphLaunch(instance: *mut c_void, stream: *mut c_void) {
        // Dropped after the lock.
        let graph;
        let mut machine = machine();
        machine.need_context()?;
        graph = machine.graphs.get(&number(instance)).ok_or(Error::InvalidHandle)?.clone();
        machine.replay(&graph, number(stream))
    }

    fn cuGraphExecDestroy(instance: *mut c_void) {
        destroy(instance)
    }

    fn cuGraphDestroy(graph: *mut c_void) {
        destroy(graph)
    }
}
