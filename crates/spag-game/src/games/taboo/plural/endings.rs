//! Plurals by ending. The first matching row decides, in the order of the tables and of their rows.

/// An ending and its plural.
type Ending = (&'static str, &'static str);

/// Endings without a plural form.
#[rustfmt::skip]
const UNCHANGED: &[&str] = &[
    "fish", "ois", "sheep", "deer", "pox", "itis", "fructose", "glucose", "galactose", "lactose", "ketose",
    "maltose", "ribose", "saccharose", "cellulose",
];

/// Irregular nouns, also as endings ("grandchild", "snowman"). "octopus" precedes "opus", which it ends in.
#[rustfmt::skip]
const IRREGULAR: &[Ending] = &[
    ("atlas", "atlantes"), ("beef", "beeves"), ("brother", "brethren"), ("child", "children"),
    ("corpus", "corpora"), ("ephemeris", "ephemerides"), ("ganglion", "ganglia"), ("genie", "genii"),
    ("genus", "genera"), ("graffito", "graffiti"), ("loaf", "loaves"), ("lynx", "lynxes"), ("money", "monies"),
    ("mongoose", "mongooses"), ("mythos", "mythoi"), ("octopus", "octopodes"), ("opus", "opera"),
    ("penis", "penes"), ("quiz", "quizzes"), ("soliloquy", "soliloquies"), ("testis", "testes"),
    ("trilby", "trilbys"), ("turf", "turves"), ("numen", "numena"), ("occiput", "occipita"), ("man", "men"),
    ("person", "people"), ("louse", "lice"), ("mouse", "mice"), ("tooth", "teeth"), ("goose", "geese"),
    ("foot", "feet"), ("zoon", "zoa"),
    // Greek: analysis, axis.
    ("cis", "ces"), ("sis", "ses"), ("xis", "xes"),
    // Latin and French.
    ("trix", "trices"), ("eau", "eaux"), ("ieu", "ieu"), ("inx", "inges"), ("anx", "anges"), ("ynx", "ynges"),
];

/// Regular endings.
#[rustfmt::skip]
const REGULAR: &[Ending] = &[
    ("ch", "ches"), ("sh", "shes"), ("ss", "sses"), ("x", "xes"), ("alf", "alves"), ("elf", "elves"),
    ("olf", "olves"), ("deaf", "deafs"), ("eaf", "eaves"), ("arf", "arves"), ("nife", "nives"), ("life", "lives"),
    ("wife", "wives"), ("ay", "ays"), ("ey", "eys"), ("iy", "iys"), ("oy", "oys"), ("uy", "uys"), ("y", "ies"),
    ("ao", "aos"), ("eo", "eos"), ("io", "ios"), ("oo", "oos"), ("uo", "uos"), ("o", "oes"),
];

/// The plural of a word by its ending; `None` if it takes -s.
pub(super) fn plural(word: &str) -> Option<String> {
    let proper = word.contains(|c: char| c.is_ascii_uppercase());
    if (proper && word.ends_with("ese")) || UNCHANGED.iter().any(|ending| word.ends_with(ending)) {
        return Some(word.to_owned());
    }
    // Names in -y take -s: Marys, Kennedys.
    let regular = || if proper && word.ends_with('y') { None } else { change(word, REGULAR) };
    change(word, IRREGULAR).or_else(regular)
}

fn change(word: &str, endings: &[Ending]) -> Option<String> {
    endings.iter().find_map(|(ending, becomes)| word.strip_suffix(ending).map(|stem| format!("{stem}{becomes}")))
}
