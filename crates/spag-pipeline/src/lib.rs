//! spag-pipeline
