//! Filters: what follows a bar.

mod attributes;
mod html;
mod json;
mod links;
mod numbers;
mod pretty;
mod select;
mod sequences;
mod sort;
mod texts;
mod wrap;

use super::arguments::Args;
use super::error::{Result, fail};
use super::run::Run;
use super::value::{Value, quoted};

/// Names of all filters.
pub(crate) const NAMES: [&str; 54] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// `value|name(…)`.
pub(crate) fn filter(run: &Run, name: &str, value: Value, args: Args) -> Result<Value> {
    let _level = run.budget.enter()?;
    match name {
        "abs" | "filesizeformat" | "float" | "int" | "round" | "sum" => numbers::filter(run, name, &value, args),
        "attr" | "d" | "default" | "map" | "reject" | "rejectattr" | "select" | "selectattr" => {
            select::filter(run, name, value, args)
        }
        "batch" | "count" | "first" | "items" | "join" | "last" | "length" | "list" | "random" | "reverse"
        | "slice" => sequences::filter(run, name, &value, args),
        "dictsort" | "groupby" | "max" | "min" | "sort" | "unique" => sort::filter(run, name, &value, args),
        "e" | "escape" | "forceescape" | "safe" | "striptags" | "urlencode" | "urlize" | "xmlattr" => {
            html::filter(run, name, &value, args)
        }
        "tojson" => json::to_json(run, &value, args),
        "pprint" => {
            args.none(name)?;
            pretty::pprint(run, &value)
        }
        "wordwrap" => wrap::wordwrap(run, &value, args),
        name if NAMES.contains(&name) => texts::filter(run, name, &value, args),
        name => fail!("No filter named {}.", quoted(&name.chars().take(50).collect::<String>())),
    }
}
