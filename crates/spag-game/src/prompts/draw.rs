//! Which wording a prompt gets.

use rand::Rng;

use super::data::Layouts;
use super::template::Template;
use super::wordings::{Names, Wordings};

/// One drawn wording.
pub(super) enum Drawn<'a> {
    /// The one that is played with.
    Playing,
    /// One of those for training.
    Training(Wording<'a>),
}

/// One choice of each part; what is `None` is missing in the file.
pub(super) struct Wording<'a> {
    pub(super) prefix: &'a str,
    pub(super) names: Option<&'a Names>,
    pub(super) layout: Layout,
    pub(super) system: &'a str,
    pub(super) rules: Option<&'a Template>,
}

#[derive(Clone, Copy)]
pub(super) enum Layout {
    Chat,
    ChatInverse,
    Alpaca {
        /// It begins with the system name.
        system: bool,
        /// It ends in the instruction.
        nameless: bool,
    },
}

/// Draws a wording. The order of the draws is part of what a seed means.
pub(super) fn draw<'a>(wordings: &'a Wordings, rng: &mut impl Rng) -> Drawn<'a> {
    let parts = &wordings.training;
    if parts.playing_share > 0.0 && rng.random_bool(parts.playing_share.min(1.0)) {
        return Drawn::Playing;
    }
    let prefix = pick(&parts.dialogue_prefixes, rng).map_or("", String::as_str);
    let names = pick(&parts.names, rng);
    let layout = pick_layout(&parts.layouts, rng);
    let system = pick(&parts.system_names, rng).map_or("", String::as_str);
    let rules = pick(&wordings.rules, rng);
    let layout = match layout {
        Layout::Alpaca { .. } => Layout::Alpaca {
            system: rng.random_bool(parts.alpaca_system_share.clamp(0.0, 1.0)),
            nameless: rng.random_bool(parts.alpaca_nameless_share.clamp(0.0, 1.0)),
        },
        chat => chat,
    };
    Drawn::Training(Wording { prefix, names, layout, system, rules })
}

/// One entry of a list; `None` only for an empty one, which the checks on loading rule out.
fn pick<'a, T>(all: &'a [T], rng: &mut impl Rng) -> Option<&'a T> {
    match all.len() {
        0 => None,
        length => all.get(rng.random_range(0..length)),
    }
}

fn pick_layout(weights: &Layouts, rng: &mut impl Rng) -> Layout {
    let draw = rng.random::<f64>() * (weights.chat + weights.chat_inverse + weights.alpaca);
    match draw {
        draw if draw < weights.chat => Layout::Chat,
        draw if draw < weights.chat + weights.chat_inverse => Layout::ChatInverse,
        _ => Layout::Alpaca { system: false, nameless: false },
    }
}
