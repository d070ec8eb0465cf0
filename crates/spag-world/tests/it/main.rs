//! The small world, and lexicons of real words.

mod english;
mod files;
mod wordnet;
mod world;
