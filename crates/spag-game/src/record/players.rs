//! Whether the same players play as before.

/// What stands between the settings of a player.
const BETWEEN: &str = "; ";

/// Each setting in which `before` and `now` differ, in words; nothing where they are the same.
pub(super) fn difference(before: &str, now: &str) -> Option<String> {
    if before == now {
        return None;
    }
    let only = |of: &str, other: &str| -> String {
        let other: Vec<&str> = other.split(BETWEEN).collect();
        let own: Vec<&str> = of.split(BETWEEN).filter(|setting| !other.contains(setting)).collect();
        match own.join(BETWEEN) {
            none if none.is_empty() => "(nothing)".to_owned(),
            own => own,
        }
    };
    let (then, now) = (only(before, now), only(now, before));
    // The same settings in another order are the same.
    (then != now).then(|| format!("then {then}, now {now}"))
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn only_what_differs_is_told() {
        assert_eq!(difference("model=a; seed=1", "seed=1; model=a"), None);
        for (before, now, said) in [
            (
                "model=a; temperature=1.2; seed=1",
                "model=a; temperature=1; seed=1",
                "then temperature=1.2, now temperature=1",
            ),
            ("model=a", "model=a; top_p=0.9", "then (nothing), now top_p=0.9"),
            ("", "model=a", "then (nothing), now model=a"),
        ] {
            assert_eq!(difference(before, now).as_deref(), Some(said));
        }
    }
}
