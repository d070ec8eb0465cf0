//! The small world, and lexicons of real words.

mod english;
mod files;
mod thoughts;
mod wordnet;
mod world;
