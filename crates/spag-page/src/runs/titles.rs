//! What files of games are called: as in the report of the run.

use spag_game::Labels;
use spag_run::{Model, files};
use toml::{Table, Value};

/// The name of a file, by its path in the run folder: "IM attacks, SPAG-1 defends" of the evaluation, or whose self-play it has.
/// `folders` are those of several games; `imitated` are the players of the imitation.
pub(super) fn title(file: &str, labels: &Labels, folders: &[&str], imitated: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    let stage = parts.first().copied().unwrap_or_default();
    let within = parts.get(1..).unwrap_or_default();
    let players = match name.split_once("-vs-") {
        Some((first, second)) => labels.pairing(&first.to_uppercase(), &second.to_uppercase()),
        None => {
            // A mix of sources has a folder for each.
            let source = within.iter().find(|part| !folders.contains(*part));
            let imitated = source.map_or(imitated, |source| if *source == "self" { "base" } else { source });
            format!("{} self-play", player(stage, imitated))
        }
    };
    let game = within.iter().find(|part| folders.contains(*part)).map(|game| format!("{game}: ")).unwrap_or_default();
    let held_out = if within.contains(&files::HELD_OUT) { " (held-out words)" } else { "" };
    format!("{game}{players}{held_out}")
}

/// Whose games a stage has: those of the model before it.
fn player(stage: &str, imitated: &str) -> String {
    match Model::of_stage(stage) {
        Some(Model::Im) => imitated.to_owned(),
        Some(model) => model.before().unwrap_or(model).name(),
        None => stage.to_uppercase(),
    }
}

/// The players of the imitation in the settings of a run.
pub(super) fn imitated(settings: &Table) -> String {
    let Some(imitation) = settings.get("imitation").and_then(Value::as_table) else { return "scripted".to_owned() };
    let text = |key: &str| imitation.get(key).and_then(Value::as_str);
    let name = |source: &str| match source {
        "games" => text("file").unwrap_or(source).to_owned(),
        "endpoint" => text("player").unwrap_or(source).to_owned(),
        "self" => "base".to_owned(),
        source => source.to_owned(),
    };
    match imitation.get("source") {
        Some(Value::Table(mix)) => mix.keys().map(|source| name(source)).collect::<Vec<_>>().join(" + "),
        source => name(source.and_then(Value::as_str).unwrap_or("scripted")),
    }
}

#[cfg(test)]
mod tests {
    use spag_game::taboo::LABELS;

    use super::*;

    #[test]
    fn files_are_called_as_in_the_report() {
        let title = |file: &str| title(file, &LABELS, &["nim"], "scripted");
        for (file, expected) in [
            ("im/episodes.jsonl", "scripted self-play"),
            ("im/self/episodes.jsonl", "base self-play"),
            ("spag-1/episodes.jsonl", "IM self-play"),
            ("spag-12/nim/episodes.jsonl", "nim: SPAG-11 self-play"),
            ("eval/im-vs-spag-1.jsonl", "IM attacks, SPAG-1 defends"),
            ("eval/nim/held-out/im-vs-im.jsonl", "nim: IM attacks, IM defends (held-out words)"),
            ("other/episodes.jsonl", "OTHER self-play"),
            ("episodes.jsonl", " self-play"),
        ] {
            assert_eq!(title(file), expected, "{file}");
        }
    }

    #[test]
    fn players_of_the_imitation_are_named_in_the_settings() {
        let imitated = |text: &str| imitated(&text.parse().unwrap());
        assert_eq!(imitated(""), "scripted");
        assert_eq!(imitated("[imitation]\nsource = \"self\""), "base");
        assert_eq!(imitated("[imitation]\nsource = \"games\"\nfile = \"a.jsonl\""), "a.jsonl");
        assert_eq!(imitated("[imitation]\nsource = { self = 0.5, scripted = 0.5 }"), "scripted + base");
    }
}
