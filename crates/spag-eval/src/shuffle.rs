//! Choices in an order of each row's own, for data that have the right one first.

use serde_json::Value;
use spag_io::sha256;

use crate::config::ShuffleConfig;
use crate::metric::is_space;
use crate::python_random::PythonRandom;
use crate::rows::replace_text;
use crate::template::{self, Fields};

/// Adds the list and the letter of its first text to the fields of a row.
pub(crate) fn shuffle(config: &ShuffleConfig, fields: &mut Fields) -> Result<(), String> {
    let texts = config.texts.iter().map(|text| template::text(text, fields)).collect::<Result<Vec<_>, _>>();
    let texts = texts.map_err(|why| format!("shuffle: {why}"))?;
    if !(2..=26).contains(&texts.len()) {
        return Err(format!("shuffle: {} texts; there must be 2 to 26", texts.len()));
    }
    let clean = |text: &String| {
        let mut text = text.trim_matches(is_space).to_owned();
        replace_text(&mut text, &config.replace);
        text
    };
    let texts: Vec<String> = texts.iter().map(clean).collect();
    let digest = sha256(texts.join("\n").as_bytes());
    let seed = digest.get(..16).and_then(|start| u64::from_str_radix(start, 16).ok()).unwrap_or(0);
    let order = PythonRandom::new(seed).sample(texts.len(), texts.len());
    let first = order.iter().position(|at| *at == 0).unwrap_or(0);
    let list = order.iter().filter_map(|at| texts.get(*at)).map(|text| Value::from(text.as_str())).collect();
    fields.insert(config.list.clone(), Value::Array(list));
    fields.insert(config.letter.clone(), char::from(b'A' + first as u8).to_string().into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_texts_and_the_letter_is_right() {
        let config: ShuffleConfig = toml::from_str(
            "list = 'options'\nletter = 'right'\ntexts = ['Right one', 'b', 'c', 'd']\nreplace = [['x', 'y']]",
        )
        .unwrap();
        let mut places = std::collections::BTreeSet::new();
        for i in 0..40 {
            let row = serde_json::json!({"Right one": format!(" right {i}x "), "b": "1", "c": "2", "d": "3"});
            let mut fields = row.as_object().unwrap().clone();
            shuffle(&config, &mut fields).unwrap();
            let options: Vec<&str> =
                fields["options"].as_array().unwrap().iter().map(|o| o.as_str().unwrap()).collect();
            let at = options.iter().position(|option| *option == format!("right {i}y")).unwrap();
            assert_eq!(fields["right"], ["A", "B", "C", "D"][at]);
            let mut again = row.as_object().unwrap().clone();
            shuffle(&config, &mut again).unwrap();
            assert_eq!(again, fields);
            places.insert(at);
        }
        assert_eq!(places.len(), 4);
        let mut fields = Fields::new();
        assert!(shuffle(&config, &mut fields).unwrap_err().contains("no field"));
    }
}
