//! Files and progress for SPAG: JSONL in and out, atomic writes, locks, digests, error classes.
#![doc = include_str!("../README.md")]

mod atomic;
mod command_files;
mod contents;
#[doc(hidden)]
pub mod declared;
mod digest;
mod display;
mod enclosed;
mod error;
mod foreign;
mod guard;
mod identity;
mod in_place;
mod jsonl;
mod leftovers;
mod lock;
mod named;
mod nearest;
mod progress;
mod prompt;
mod range;
mod reasoning;
mod row;
mod rows;
mod settings;
mod signal;
mod size;
mod temporary;
mod text_file;
mod whole;

pub use atomic::{AtomicFile, read_json, sync_folder, write_atomically, write_json_atomically, write_jsonl_atomically};
pub use command_files::CommandFiles;
pub use contents::Contents;
pub use declared::Declared;
pub use digest::{hex, read_excerpts, sha256, sha256_file};
pub use display::{abridge, escape, escape_lines, escape_table, quote};
pub use enclosed::{EnclosedFolder, EntryKind};
pub use error::{Classify, Error, ErrorClass, Result, error_chain};
pub use foreign::{foreign_file, foreign_text};
pub use guard::{catch_panic, catch_panic_with_stack, is_panic_caught};
pub use jsonl::{JsonlAppender, read_complete_lines};
pub use leftovers::remove_unlocked_files;
pub use lock::FileLock;
pub use nearest::nearest_name;
pub use progress::{Nested, Progress, Silent, duration};
pub use prompt::{ChatMessage, ChatRole, PromptFormat, PromptText, TurnPrompt, Wordings};
pub use range::{Limits, Ranged, in_range, parser, truth};
pub use reasoning::{
    PromptEnd, ReasoningFormat, ReasoningRule, ReasoningScan, ReasoningStream, ReasoningTags, SplitCompletion,
    SplitDelta, Stand,
};
pub use row::{Row, cause, null_is_default};
pub use rows::{ChunkReader, RowChunk, RowReader};
pub use settings::{Number, Settings, Within, is_default, number_or_text};
pub use signal::Signal;
pub use size::{folder_size, format_gib, free_disk, gib};
pub use text_file::read_text;
pub use whole::read_whole;
