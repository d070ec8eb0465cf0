//! Numbers in English words.

/// Words and their values below a hundred.
const SMALL: [(&str, u64); 28] = [
    ("zero", 0),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("thirteen", 13),
    ("fourteen", 14),
    ("fifteen", 15),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("seventy", 70),
    ("eighty", 80),
    ("ninety", 90),
];
/// Words for powers of a thousand.
const LARGE: [(&str, u64); 4] =
    [("thousand", 1_000), ("million", 1_000_000), ("billion", 1_000_000_000), ("trillion", 1_000_000_000_000)];

/// A number that words add up to.
#[derive(Clone, Copy, Default)]
struct Number {
    /// Of the groups that a power of a thousand has ended.
    ended: u64,
    /// Of the group at work.
    group: u64,
}

impl Number {
    fn value(self) -> u64 {
        self.ended.saturating_add(self.group)
    }

    /// The number with another word; `None` if the word begins another number or is none.
    fn with(self, word: &str) -> Option<Self> {
        let value = |words: &[(&str, u64)]| words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
        if let Some(small) = value(&SMALL) {
            let below = self.group % 100;
            let fits = if small < 10 {
                below >= 20 && below.is_multiple_of(10) && small > 0 || below == 0
            } else {
                below == 0
            };
            return fits.then(|| Self { group: self.group + small, ..self });
        }
        if word == "hundred" {
            return (1..10).contains(&self.group).then(|| Self { group: self.group * 100, ..self });
        }
        let power = value(&LARGE)?;
        let fits = self.group > 0 && (self.ended == 0 || self.ended.is_multiple_of(power.saturating_mul(1000)));
        fits.then(|| Self { ended: self.ended.saturating_add(self.group.saturating_mul(power)), group: 0 })
    }
}

/// The last number in the words of a text.
pub(crate) fn last(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let (mut last, mut open): (Option<u64>, Option<Number>) = (None, None);
    for word in words {
        if word == "and" && open.is_some() {
            continue;
        }
        open = open.and_then(|number| number.with(word)).or_else(|| Number::default().with(word));
        last = open.map(Number::value).or(last);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_numbers() {
        for (text, number) in [
            ("There are six.", Some(6)),
            ("twenty-two", Some(22)),
            ("one, two and three", Some(3)),
            ("a hundred", None),
            ("Two hundred and five apples", Some(205)),
            ("three thousand four hundred and twelve", Some(3412)),
            ("one million", Some(1_000_000)),
            ("often someone pays attention", None),
            ("ten five", Some(5)),
            ("", None),
        ] {
            assert_eq!(last(text), number, "{text}");
        }
    }
}
