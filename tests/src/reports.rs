//! Comparison of reports with what other programs computed.

use serde_json::Value;

/// Compares two reports: numbers within 1e-4, sums within 1e-4 of their size, perplexities within a thousandth; texts by
/// `same_text`; everything else must be equal. `at` says in messages where the reports are from.
pub fn assert_reports_agree(found: &Value, expected: &Value, at: &str, same_text: fn(&str, &str) -> bool) {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => {
            let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
            // Perplexities are exponentials of sums.
            let limit = if at.contains("perplexity") { 1e-3 * expected } else { 1e-4 * expected.abs().max(1.0) };
            assert!((found - expected).abs() <= limit, "{at}: {found}, not {expected}");
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{at}");
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_reports_agree(found, expected, &format!("{at}[{i}]"), same_text);
            }
        }
        (Value::Object(found), Value::Object(expected)) => {
            assert!(found.keys().eq(expected.keys()), "{at}");
            for ((key, found), expected) in found.iter().zip(expected.values()) {
                assert_reports_agree(found, expected, &format!("{at}.{key}"), same_text);
            }
        }
        (Value::String(found), Value::String(expected)) => {
            assert!(same_text(found, expected), "{at}: {found:?}, not {expected:?}");
        }
        _ => assert_eq!(found, expected, "{at}"),
    }
}
