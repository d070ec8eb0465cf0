//! Where a text occurs in another one, in time linear in both, whatever they repeat.

/// Bytes of a form up to which it is compared in place. Target words are far shorter.
const SHORT: usize = 256;

/// The positions at which a form begins in a text.
pub(super) enum Occurrences<'a> {
    /// Compared when asked.
    Compared { form: &'a str, text: &'a str },
    /// Searched once, ascending: many positions of a text may begin like a long form.
    Listed(Vec<usize>),
}

impl<'a> Occurrences<'a> {
    pub(super) fn new(form: &'a str, text: &'a str) -> Self {
        match form.len() {
            0..=SHORT => Self::Compared { form, text },
            _ => Self::Listed(starts(form.as_bytes(), text.as_bytes())),
        }
    }

    /// Whether the form begins at this byte of the text.
    pub(super) fn start_at(&self, at: usize) -> bool {
        match self {
            Self::Compared { form, text } => {
                text.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(form.as_bytes()))
            }
            Self::Listed(starts) => starts.binary_search(&at).is_ok(),
        }
    }
}

/// All positions of `form` in `text`, also overlapping ones (Knuth, Morris and Pratt 1977).
fn starts(form: &[u8], text: &[u8]) -> Vec<usize> {
    // The longest proper prefix of the form that is a suffix of its first n + 1 bytes.
    let mut borders = vec![0; form.len()];
    let extend = |borders: &[usize], mut matched: usize, byte: u8| {
        while matched > 0 && form.get(matched) != Some(&byte) {
            matched = borders[matched - 1];
        }
        matched + usize::from(form.get(matched) == Some(&byte))
    };
    let mut matched = 0;
    for (n, byte) in form.iter().enumerate().skip(1) {
        matched = extend(&borders, matched, *byte);
        borders[n] = matched;
    }
    let (mut found, mut matched) = (Vec::new(), 0);
    for (end, byte) in (1..).zip(text) {
        matched = extend(&borders, matched, *byte);
        if matched == form.len() && matched > 0 {
            found.push(end - form.len());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_occurrences_are_found(form in "[ab]{1,5}", text in "[ab]{0,60}") {
            let expected: Vec<usize> = (0..text.len()).filter(|at| text[*at..].starts_with(&form)).collect();
            prop_assert_eq!(&starts(form.as_bytes(), text.as_bytes()), &expected);
            let compared = Occurrences::new(&form, &text);
            prop_assert!((0..=text.len() + 1).all(|at| compared.start_at(at) == expected.contains(&at)));
        }
    }
}
