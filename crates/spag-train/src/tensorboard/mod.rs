//! Metrics as TensorBoard reads them: an event file of records, each one protocol buffer message.

mod record;
mod writer;

pub use writer::EventWriter;
