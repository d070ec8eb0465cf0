//! TensorBoard event files.

mod record;
mod writer;

pub use writer::EventWriter;
