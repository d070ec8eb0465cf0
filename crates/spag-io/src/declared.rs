//! Declarations of settings, for generated documentation.

use serde::Serialize;
use serde_json::Value;

use crate::settings::Settings;

/// A setting, or a table of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The key.
    pub key: &'static str,
    /// Its documentation, one string per line.
    pub doc: &'static str,
    /// The accepted range: "expected a whole number of at least 1 and at most 9".
    pub expected: Option<String>,
    /// The default; null for a setting that is off or derived from others.
    pub default: Value,
    /// The settings of a table, or of each table of a list.
    pub inner: Option<Vec<Declared>>,
}

impl Declared {
    /// The declaration of a field with this default.
    pub fn new(
        key: &'static str,
        doc: &'static str,
        expected: Option<String>,
        default: &impl Serialize,
        inner: Option<Vec<Self>>,
    ) -> Self {
        // Settings can be written to files, so they serialize.
        Self { key, doc, expected, default: serde_json::to_value(default).unwrap_or_default(), inner }
    }
}

/// A field's value, wrapped so that method resolution picks its kind (autoref specialization): the trait implemented for the most
/// references is tried first.
#[derive(Debug)]
pub struct Of<'a, T>(pub &'a T);

/// A table of settings.
pub trait AsTable {
    /// The settings of the table.
    fn inner(&self) -> Option<Vec<Declared>>;
}

impl<T: Settings> AsTable for &&&Of<'_, T> {
    fn inner(&self) -> Option<Vec<Declared>> {
        Some(self.0.declared())
    }
}

/// A table that may be absent.
pub trait AsOption {
    /// The settings of the table.
    fn inner(&self) -> Option<Vec<Declared>>;
}

impl<T: Settings> AsOption for &&Of<'_, Option<T>> {
    fn inner(&self) -> Option<Vec<Declared>> {
        Some(self.0.as_ref().map_or_else(|| T::default().declared(), Settings::declared))
    }
}

/// A list of tables.
pub trait AsList {
    /// The settings of each table.
    fn inner(&self) -> Option<Vec<Declared>>;
}

impl<T: Settings> AsList for &Of<'_, Vec<T>> {
    fn inner(&self) -> Option<Vec<Declared>> {
        Some(T::default().declared())
    }
}

/// Any other value.
pub trait AsValue {
    /// No settings.
    fn inner(&self) -> Option<Vec<Declared>>;
}

impl<T> AsValue for Of<'_, T> {
    fn inner(&self) -> Option<Vec<Declared>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    crate::settings! {
        /// A part.
        pub(super) table Part {
            /// How many.
            pub(super) count: usize [1..=9] = 3;
        }

        /// A whole.
        pub(super) table Whole {
            /// The name,
            /// in two lines.
            pub(super) name as "title": Option<String>;
            /// One.
            pub(super) one: Part = Part { count: 5 };
            /// Perhaps one.
            pub(super) perhaps: Option<Part>;
            /// Several.
            pub(super) several: Vec<Part>;
            /// Words.
            pub(super) words: Vec<String>;
        } + {
            /// In the same table.
            pub(super) part: Part;
        }
    }

    #[test]
    fn declarations_have_documentation_limits_defaults_and_tables() {
        use crate::Settings;

        let declared = Whole::default().declared();
        let keys: Vec<&str> = declared.iter().map(|setting| setting.key).collect();
        assert_eq!(keys, ["title", "one", "perhaps", "several", "words", "count"]);
        assert_eq!((declared[0].doc, &declared[0].default), (" The name,\n in two lines.\n", &json!(null)));
        let inner = |at: usize| declared[at].inner.as_ref().map(|inner| inner[0].default.clone());
        assert_eq!([0, 1, 2, 3, 4].map(inner), [None, Some(json!(5)), Some(json!(3)), Some(json!(3)), None]);
        let count = &declared[5];
        assert_eq!((count.key, &count.default, count.inner.is_none()), ("count", &json!(3), true));
        assert_eq!(count.expected.as_deref(), Some("expected a whole number of at least 1 and at most 9"));
    }
}
