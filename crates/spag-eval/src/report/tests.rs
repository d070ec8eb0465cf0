//! The radar plot, the table and the page.

use crate::{Metric, MetricScore, ModelScores, TaskScore, Value, radar, render_page, render_table};
use roxmltree::Document;

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

/// The `<svg>` of a figure.
fn svg(figure: &str) -> &str {
    let (from, to) = (figure.find("<svg").unwrap(), figure.find("</svg>").unwrap());
    &figure[from..to + "</svg>".len()]
}

#[test]
fn scores_of_fewer_rows_say_of_how_many() {
    let mut models = scores(2, 1);
    models[1].tasks[0].rows = 40;
    let text = render_table(&models);
    assert!(text.contains("35.0 [31.0, 39.0] of 40") && !text.contains("of 100"), "{text}");
}

#[test]
fn radar_is_xml_with_a_polygon_a_model_and_a_corner_a_task() {
    for (models, tasks) in [(1, 3), (5, 5), (7, 8)] {
        let figure = radar(&scores(models, tasks)).unwrap();
        let document = Document::parse(svg(&figure)).unwrap();
        let polygons: Vec<_> = document.descendants().filter(|node| node.has_tag_name("polygon")).collect();
        assert_eq!(polygons.len(), models);
        for polygon in polygons {
            let points: Vec<(f64, f64)> = polygon
                .attribute("points")
                .unwrap()
                .split(' ')
                .map(|point| point.split_once(',').unwrap())
                .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
                .collect();
            assert_eq!(points.len(), tasks);
            assert!(points.iter().all(|(x, y)| (0.0..=460.0).contains(x) && (0.0..=380.0).contains(y)), "{points:?}");
        }
        let root = document.root_element();
        assert!(root.attribute("aria-label").unwrap().contains("model 0") && root.attribute("role") == Some("img"));
        let labels = document.descendants().filter(|node| node.attribute("class") == Some("label")).count();
        assert_eq!(labels, tasks);
        assert_eq!(figure.matches("<li>").count(), models, "each model is in the legend");
    }
}

#[test]
fn last_model_has_the_same_style_whatever_the_number_of_models() {
    for models in 1..8 {
        let figure = radar(&scores(models, 4)).unwrap();
        assert!(figure.rsplit("<polygon").next().unwrap().contains("var(--blue)"), "{models}");
    }
}

#[test]
fn higher_share_is_farther_from_the_centre() {
    let figure = radar(&scores(2, 3)).unwrap();
    let document = Document::parse(svg(&figure)).unwrap();
    let top: Vec<f64> = document
        .descendants()
        .filter_map(|node| node.attribute("points"))
        .map(|points| points.split([' ', ',']).nth(1).unwrap().parse().unwrap())
        .collect();
    assert!(top[1] < top[0], "the first axis points up: {top:?}");
}

#[test]
fn fewer_than_three_axes_and_perplexities_are_not_drawn() {
    assert!(radar(&scores(2, 2)).is_none() && radar(&[]).is_none());
    let mut models = scores(1, 3);
    models[0].tasks[2] = task("text", None, Metric::WordPerplexity, 20.0);
    assert!(radar(&models).is_none());
    let page = render_page(&models);
    assert!(!page.contains("<svg") && page.contains("20.000"), "{page}");
}

#[test]
fn tasks_of_a_group_are_one_axis_and_folded_in_the_page() {
    let mut models = scores(2, 3);
    for model in &mut models {
        model.tasks.push(TaskScore { is_group: true, ..task("group", None, Metric::Acc, 0.5) });
        model.tasks.extend((0..9).map(|i| task(&format!("part{i}"), Some("group"), Metric::Acc, 0.5)));
    }
    let figure = radar(&models).unwrap();
    assert_eq!(figure.matches(r#"class="label""#).count(), 4);
    let (table, page) = (render_table(&models), render_page(&models));
    assert!(table.contains("the group") && !table.contains("the part0"));
    assert!(page.contains("· the part0") && page.contains("<details>"));
}

#[test]
fn values_have_their_intervals_and_texts_are_escaped() {
    let mut models = scores(1, 3);
    models[0].name = "<b>&\u{1b}[2J".into();
    models[0].tasks[0].alias = "\"><script>".into();
    models[0].cut = 3;
    let (table, page) = (render_table(&models), render_page(&models));
    assert!(table.contains("30.0 [26.0, 34.0]") && page.contains("30.0 [26.0, 34.0]"));
    assert!(table.contains("3 rows were longer"));
    assert!(!page.contains("<script") && !page.contains("<b>&") && !table.contains('\u{1b}'));
    Document::parse(svg(&page)).unwrap();
    assert!(!render_page(&[]).contains("NaN"));
}
