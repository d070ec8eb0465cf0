//! The parts of a prompt file, made ready to be put together many times.

use super::data::{Layouts, PromptFile};
use super::template::Template;
use crate::episode::Role;

/// All parts, with everything filled in that does not depend on the game.
///
/// They may be in another form than plain text, such as JSON's, as long as that form of two texts one after another is
/// the forms of both one after another, and leaves letters, braces and full stops alone.
#[derive(Clone, Debug)]
pub(super) struct Wordings {
    /// With the number of turns to fill in.
    pub(super) rules: Vec<Template>,
    pub(super) playing: Playing,
    pub(super) training: Training,
}

/// Parts of the playing wording.
#[derive(Clone, Debug)]
pub(super) struct Playing {
    pub(super) beginning: String,
    pub(super) history: String,
    /// With the role and the content to fill in.
    pub(super) entry: Template,
    pub(super) instruction: Instruction,
}

/// What the player to move is told.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    /// With the target word to fill in.
    attacker: Template,
    defender: String,
}

impl Instruction {
    pub(super) fn append(&self, to: &mut String, role: Role, target_word: &str) {
        match role {
            Role::Attacker => self.attacker.append(to, &[target_word]),
            // The defender's prompt never gets near the word.
            Role::Defender => to.push_str(&self.defender),
        }
    }
}

/// Parts of the training wordings; see the prompt file's keys of the same names.
#[derive(Clone, Debug)]
pub(super) struct Training {
    pub(super) playing_share: f64,
    pub(super) layouts: Layouts,
    pub(super) dialogue_prefixes: Vec<String>,
    pub(super) names: Vec<Names>,
    pub(super) system_names: Vec<String>,
    pub(super) instruction: Instruction,
    pub(super) before_instruction: String,
    pub(super) beginning: String,
    pub(super) history: String,
    pub(super) after_history: String,
    pub(super) after_name: String,
    pub(super) alpaca_system_share: f64,
    pub(super) alpaca_nameless_share: f64,
}

/// How the two players are called: the one to move, and the other.
#[derive(Clone, Debug)]
pub(super) struct Names {
    attacker_moves: (String, String),
    defender_moves: (String, String),
}

impl Names {
    fn new(own: &str, other: &str) -> Self {
        let (own, other) = (Template::new(own, &["self", "other"]), Template::new(other, &["self", "other"]));
        let names = |role: Role| {
            let (mover, opponent) = (role.name(), role.opponent().name());
            (own.fill(&[mover, opponent]), other.fill(&[mover, opponent]))
        };
        Self { attacker_moves: names(Role::Attacker), defender_moves: names(Role::Defender) }
    }

    /// The names where it is this role's turn.
    pub(super) fn of(&self, role: Role) -> (&str, &str) {
        let (own, other) = match role {
            Role::Attacker => &self.attacker_moves,
            Role::Defender => &self.defender_moves,
        };
        (own, other)
    }
}

impl Wordings {
    /// The parts of a file, each put into a form.
    pub(super) fn new(file: &PromptFile, form: impl Fn(&str) -> String) -> Self {
        let forms = |texts: &[String]| texts.iter().map(|text| form(text)).collect();
        let instruction = |texts: &super::data::PerRole| Instruction {
            attacker: Template::new(&form(&texts.attacker), &["target_word"]),
            defender: form(&texts.defender),
        };
        let (playing, training) = (&file.playing, &file.training);
        Self {
            rules: file.rules.iter().map(|text| Template::new(&form(text), &["max_turns"])).collect(),
            playing: Playing {
                beginning: form(&playing.beginning),
                history: form(&playing.history),
                entry: Template::new(&form(&playing.entry), &["role", "content"]),
                instruction: instruction(&playing.instruction),
            },
            training: Training {
                playing_share: training.playing_share,
                layouts: training.layouts,
                dialogue_prefixes: forms(&training.dialogue_prefixes),
                names: training.names.iter().map(|(own, other)| Names::new(&form(own), &form(other))).collect(),
                system_names: forms(&training.system_names),
                instruction: instruction(&training.instruction),
                before_instruction: form(&training.before_instruction),
                beginning: form(&training.beginning),
                history: form(&training.history),
                after_history: form(&training.after_history),
                after_name: form(&training.after_name),
                alpaca_system_share: training.alpaca_system_share,
                alpaca_nameless_share: training.alpaca_nameless_share,
            },
        }
    }
}
