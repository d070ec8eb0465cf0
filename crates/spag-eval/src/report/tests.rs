//! The radar plot, the table and the document.

use spag_run::document::{Part, Table};

use super::radar::radar;
use crate::{Metric, MetricScore, ModelScores, TaskScore, Value, render_table, scores_document, scores_parts};

fn task(name: &str, group: Option<&str>, metric: Metric, value: f64) -> TaskScore {
    let value = Value { value, stderr: Some(0.02) };
    let metrics = vec![MetricScore {
        metric,
        filter: "none".into(),
        value,
        interval: Some((value.value - 0.04, value.value + 0.04)),
    }];
    TaskScore {
        name: name.into(),
        alias: format!("the {name}"),
        group: group.map(str::to_owned),
        is_group: false,
        rows: 100,
        chance: Some(0.25),
        metrics,
        reasoning: None,
    }
}

/// Scores of models in tasks; the shares rise with both.
fn scores(models: usize, tasks: usize) -> Vec<ModelScores> {
    let of = |model: usize| ModelScores {
        name: format!("model {model}"),
        tasks: (0..tasks)
            .map(|at| task(&format!("task{at}"), None, Metric::Acc, 0.3 + 0.05 * (model + at) as f64))
            .collect(),
        cut: 0,
        paired: Vec::new(),
    };
    (0..models).map(of).collect()
}

#[test]
fn scores_of_fewer_rows_say_of_how_many() {
    let mut models = scores(2, 1);
    models[1].tasks[0].rows = 40;
    let text = render_table(&models);
    assert!(text.contains("35.0 [31.0, 39.0] of 40") && !text.contains("of 100"), "{text}");
}

#[test]
fn radar_has_a_polygon_a_model_a_corner_a_task_and_chance() {
    for (models, tasks) in [(1, 3), (5, 5), (7, 8)] {
        let chart = radar(&scores(models, tasks)).unwrap();
        assert_eq!((chart.names.len(), chart.names[2].as_str()), (tasks, "the task2"));
        let (chance, polygons) = chart.series.split_last().unwrap();
        assert!(chance.is_reference && chance.points.iter().all(|[_, share]| *share == 25.0), "{chance:?}");
        assert_eq!(polygons.len(), models);
        for (model, polygon) in polygons.iter().enumerate() {
            let shares: Vec<f64> = (0..tasks).map(|at| 30.0 + 5.0 * (model + at) as f64).collect();
            assert!(!polygon.is_reference && polygon.points.len() == tasks);
            for ((at, [axis, share]), wanted) in polygon.points.iter().enumerate().zip(shares) {
                let [low, high] = polygon.intervals[at];
                assert_eq!(*axis, at as f64);
                assert!([share - wanted, low + 4.0 - wanted, high - 4.0 - wanted].iter().all(|d| d.abs() < 1e-9));
            }
        }
    }
}

#[test]
fn fewer_than_three_axes_and_perplexities_are_not_drawn() {
    assert!(radar(&scores(2, 2)).is_none() && radar(&[]).is_none());
    let mut models = scores(1, 3);
    models[0].tasks[2].chance = None;
    assert!(radar(&models).unwrap().series.iter().all(|series| !series.is_reference));
    models[0].tasks[2] = task("text", None, Metric::WordPerplexity, 20.0);
    assert!(radar(&models).is_none());
    let page = scores_document(&models).html();
    assert!(page.contains("20.000"), "{page}");
}

#[test]
fn tasks_of_a_group_are_one_axis_and_folded_in_the_document() {
    let mut models = scores(2, 3);
    for model in &mut models {
        model.tasks.push(TaskScore { is_group: true, ..task("group", None, Metric::Acc, 0.5) });
        model.tasks.extend((0..9).map(|i| task(&format!("part{i}"), Some("group"), Metric::Acc, 0.5)));
    }
    assert_eq!(radar(&models).unwrap().names.len(), 4);
    let table = render_table(&models);
    assert!(table.contains("the group") && !table.contains("the part0"));
    let parts = scores_parts(&models);
    let [Part::Charts(_), Part::Table(shown), Part::Folded(folded)] = &parts[..] else { panic!("{parts:?}") };
    let has_part = |table: &Table| table.rows.iter().any(|row| row[0] == "· the part0");
    assert!(!has_part(shown) && has_part(folded));
}

#[test]
fn values_have_their_intervals_and_texts_are_escaped() {
    let mut models = scores(1, 3);
    models[0].name = "<b>&\u{1b}[2J".into();
    models[0].tasks[0].alias = "\"><script>".into();
    models[0].cut = 3;
    let (table, page) = (render_table(&models), scores_document(&models).html());
    assert!(table.contains("30.0 [26.0, 34.0]") && page.contains("30.0 [26.0, 34.0]"));
    assert!(table.contains("3 rows were longer") && page.contains("3 rows were longer"));
    assert_eq!(page.matches("<script").count(), 2, "{page}");
    assert!(!page.contains("<b>") && !page.contains('\u{1b}') && !table.contains('\u{1b}'));
    assert!(!scores_document(&[]).html().contains("NaN"));
}
