//! No input panics.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::*, at, config, run};
use crate::config::TrainConfig;

/// The keys that are read.
fn known() -> Vec<String> {
    let (file, config) = (json!({"scheduler": {"type": "WarmupDecayLR"}}), config());
    let mut reader = Reader::new(&file);
    schema::refuse_unsupported(&mut reader);
    checks::check(&mut reader, &run(&config));
    resolve::resolve(&mut reader, &run(&config));
    reader.asked.take().into_iter().collect()
}

/// JSON of known names, so that values of every type reach every check.
fn any_json() -> impl Strategy<Value = Value> {
    let names: Vec<String> = known().iter().flat_map(|key| key.split('.').map(str::to_owned)).collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["auto", "", "cpu", "nvme", "none", "AdamW", "WarmupDecayLR", "日本", "log"])
            .prop_map(Value::from),
        ".{0,80}".prop_map(Value::from),
    ];
    let name = prop_oneof![9 => prop::sample::select(names), 1 => ".{0,12}"];
    leaf.prop_recursive(5, 200, 12, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((name.clone(), inner), 0..16)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_json_panics(file in any_json(), size in any::<usize>()) {
        let config = TrainConfig { warmup_steps: Some(size), ..config() };
        let run = RunFacts { config: &config, world_size: size, total_steps: size };
        match DeepSpeed::resolve(&file, &run) {
            Ok(settings) => drop(serde_json::to_string(&settings)),
            Err(problems) => prop_assert!(!problems.iter().any(|problem| problem.is_empty())),
        }
    }

    #[test]
    fn no_value_panics(values in prop::collection::vec(any_json(), 64)) {
        for (key, value) in known().into_iter().zip(values.iter().cycle()) {
            drop(DeepSpeed::resolve(&at(&key, value.clone()), &run(&config())));
        }
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}\":,\\\\a-z0-9 .-]{0,60}") {
        drop(json::parse(&text));
    }
}
