//! Filters: `value|name(…)`.

mod html;
mod json;
mod numbers;
mod paths;
mod select;
mod sequences;
mod sort;
mod texts;

use super::call::{Args, Entry};
use super::error::{Result, fail};
use super::run::Run;
use super::text::methods;
use super::value::{Value, quoted};

/// All filters.
pub(crate) const FILTERS: &[Entry<Value>] = &[
    Entry("abs", "", numbers::abs),
    Entry("attr", "name", select::attr),
    Entry("batch", "linecount fill_with?", sequences::batch),
    Entry("capitalize", "", methods::cased),
    Entry("center", "width?", methods::padded),
    Entry("count", "", sequences::count),
    Entry("d", "default_value? boolean?", select::default),
    Entry("default", "default_value? boolean?", select::default),
    Entry("dictsort", "case_sensitive? by? reverse?", sort::dictsort),
    Entry("e", "", html::escape),
    Entry("escape", "", html::escape),
    Entry("filesizeformat", "binary?", numbers::filesizeformat),
    Entry("first", "", sequences::first),
    Entry("float", "default?", numbers::float),
    Entry("forceescape", "", html::forceescape),
    Entry("format", "*", texts::format),
    Entry("groupby", "attribute default? case_sensitive?", sort::groupby),
    Entry("indent", "width? first? blank?", texts::indent),
    Entry("int", "default? base?", numbers::int),
    Entry("items", "", sequences::pairs),
    Entry("join", "d? attribute?", sequences::join),
    Entry("last", "", sequences::last),
    Entry("length", "", sequences::count),
    Entry("list", "", sequences::list),
    Entry("lower", "", methods::cased),
    Entry("map", "*", select::map),
    Entry("max", "case_sensitive? attribute?", sort::extreme),
    Entry("min", "case_sensitive? attribute?", sort::extreme),
    Entry("random", "", sequences::random),
    Entry("reject", "*", select::select),
    Entry("rejectattr", "*", select::select),
    Entry("replace", "old new count?", texts::replace),
    Entry("reverse", "", sequences::reverse),
    Entry("round", "precision? method?", numbers::round),
    Entry("safe", "", html::safe),
    Entry("select", "*", select::select),
    Entry("selectattr", "*", select::select),
    Entry("slice", "slices fill_with?", sequences::slice),
    Entry("sort", "reverse? case_sensitive? attribute?", sort::sort),
    Entry("string", "", texts::string),
    Entry("striptags", "", html::striptags),
    Entry("sum", "attribute? start?", numbers::sum),
    Entry("title", "", texts::title),
    Entry("tojson", "ensure_ascii? indent? separators? sort_keys?", json::to_json),
    Entry("trim", "chars?", methods::strip),
    Entry("truncate", "length? killwords? end? leeway?", texts::truncate),
    Entry("unique", "case_sensitive? attribute?", sort::unique),
    Entry("upper", "", methods::cased),
    Entry("urlencode", "", html::urlencode),
    Entry("wordcount", "", texts::wordcount),
];

/// Jinja filters for web pages, which no chat template uses.
const LEFT_OUT: [&str; 4] = ["pprint", "urlize", "wordwrap", "xmlattr"];

/// `value|name(…)`.
pub(crate) fn filter(run: &Run, name: &str, value: &Value, args: Args) -> Result<Value> {
    let _level = run.budget.enter()?;
    match Entry::find(FILTERS, name) {
        Some(filter) => filter.call(run, value, args),
        None if LEFT_OUT.contains(&name) => fail!("The filter {} is not supported.", quoted(name)),
        None => fail!("No filter named {}.", quoted(&name.chars().take(50).collect::<String>())),
    }
}
