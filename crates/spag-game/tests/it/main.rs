//! The rules, judges, prompts, files and drivers of games.

mod amounts;
mod any_order;
mod endings;
mod files;
mod judge;
mod long_words;
mod perfect;
mod playing;
mod plural;
mod prompts;
mod properties;
mod record;
mod session;
mod shown;
mod textarena;
mod toy;
mod views;
