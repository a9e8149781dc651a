//! Text made comparable: compatibility forms, invisible characters, look-alike letters.
//!
//! ASCII needs none of this and never comes here. What is removed is remembered as a [`Sign`]: text
//! that hides itself is a finding even if what it hides matches nothing.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use crate::{counts::count, decode::Sign};

/// Invisible characters between Latin letters that make a text suspect; fewer can be an accident of
/// copying.
const MIN_ZERO_WIDTH: usize = 3;
/// Words that mix Latin letters with look-alikes of another script that make a text suspect.
const MIN_MIXED_WORDS: usize = 2;
/// Full-width Latin letters that make a text suspect if it holds few other letters.
const MIN_FULL_WIDTH: usize = 12;

/// A text in comparable form.
#[derive(Debug)]
pub(crate) struct Normalized {
    /// NFKC, without invisible characters, tag characters as the ASCII they stand for.
    pub(crate) text: String,
    /// The same with look-alike letters folded to Latin; only if words mix scripts.
    pub(crate) folded: Option<String>,
    /// How the text hides itself.
    pub(crate) signs: Vec<Sign>,
}

/// Brings `raw` into comparable form.
pub(crate) fn normalize(raw: &str) -> Normalized {
    let mut signs = Vec::new();
    let visible = strip_invisible(raw, &mut signs);
    if is_full_width(&visible) {
        signs.push(Sign::FullWidth);
    }
    let text = compose(visible);
    let folded = (mixed_words(&text) >= MIN_MIXED_WORDS).then(|| {
        signs.push(Sign::MixedScript);
        text.chars()
            .map(|c| latin_look_alike(c).unwrap_or(c))
            .collect()
    });
    Normalized {
        text,
        folded,
        signs,
    }
}

/// NFKC. ASCII is composed with nothing before it, so that only what is beyond it is looked at, with the character before.
fn compose(text: String) -> String {
    let mut composed = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(wide) = next_wide(&text, at) {
        let rest = text.get(wide..).unwrap_or_default();
        let end = wide + rest.find(|c: char| c.is_ascii()).unwrap_or(rest.len());
        // If it is of ASCII, it is one byte.
        let start = wide.saturating_sub(1).max(at);
        at = end;
        let run = text.get(start..end).unwrap_or_default();
        if run.chars().all(is_composed) || is_nfkc_quick(run.chars()) == IsNormalized::Yes {
            continue;
        }
        composed.push_str(text.get(copied..start).unwrap_or_default());
        composed.extend(run.nfkc());
        copied = end;
    }
    if copied == 0 {
        return text;
    }
    composed.push_str(text.get(copied..).unwrap_or_default());
    composed
}

/// The place of the first character beyond ASCII from `at` on.
fn next_wide(text: &str, at: usize) -> Option<usize> {
    let rest = text.as_bytes().get(at..)?;
    // Whole blocks first: that runs many bytes at a time.
    let ascii: usize = rest
        .chunks(32)
        .take_while(|block| block.is_ascii())
        .map(<[u8]>::len)
        .sum();
    let found = rest.get(ascii..)?.iter().position(|b| !b.is_ascii())?;
    Some(at + ascii + found)
}

/// Letters that are common, are as NFKC has them, and are not composed with what is before: told without a table.
fn is_composed(c: char) -> bool {
    matches!(c, '\0'..='\u{7F}' | '\u{C0}'..='\u{FF}' | '\u{400}'..='\u{45F}' | '\u{3041}'..='\u{3096}'
        | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}')
}

fn strip_invisible(raw: &str, signs: &mut Vec<Sign>) -> String {
    let mut text = String::with_capacity(raw.len());
    let (mut zero_width, mut tags, mut bidi) = (0_usize, false, false);
    // A flag emoji spells its region in tag characters after a black flag.
    let mut in_flag = false;
    let mut rest = raw;
    loop {
        let ascii = next_wide(rest, 0).unwrap_or(rest.len());
        let (plain, wide) = rest.split_at(ascii);
        in_flag &= plain.is_empty();
        text.push_str(plain);
        let Some(c) = wide.chars().next() else {
            break;
        };
        rest = wide.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '\u{1F3F4}' => {
                in_flag = true;
                text.push(c);
            }
            '\u{E007F}' => in_flag = false,
            '\u{E0020}'..='\u{E007E}' => {
                if !in_flag {
                    if !tags && !text.ends_with(char::is_whitespace) {
                        text.push(' ');
                    }
                    tags = true;
                    text.extend(u32::from(c).checked_sub(0xE0000).and_then(char::from_u32));
                }
            }
            '\u{E0000}'..='\u{E001F}' => tags = true,
            '\u{202D}' | '\u{202E}' => bidi = true,
            '\u{061C}'
            | '\u{200E}'
            | '\u{200F}'
            | '\u{202A}'..='\u{202C}'
            | '\u{2066}'..='\u{2069}' => {}
            '\u{00AD}'
            | '\u{034F}'
            | '\u{115F}'
            | '\u{1160}'
            | '\u{17B4}'
            | '\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200D}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206A}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{E0100}'..='\u{E01EF}' => {
                // Only after a Latin letter: joiners are ordinary in Persian, Hindi and emoji.
                if text.ends_with(|p: char| p.is_ascii_alphabetic()) {
                    zero_width += 1;
                }
            }
            _ => {
                in_flag = false;
                text.push(c);
            }
        }
    }
    if zero_width >= MIN_ZERO_WIDTH {
        signs.push(Sign::ZeroWidth);
    }
    if tags {
        signs.push(Sign::TagCharacters);
    }
    if bidi {
        signs.push(Sign::BidiOverride);
    }
    text
}

/// Whether most letters are full-width forms of Latin ones. Japanese text has some.
fn is_full_width(text: &str) -> bool {
    // The first byte of all such letters.
    if count(text.as_bytes(), |b| b == 0xEF) < MIN_FULL_WIDTH {
        return false;
    }
    let (mut wide, mut other) = (0_usize, count(text.as_bytes(), |b| b.is_ascii_alphabetic()));
    for c in text.chars().filter(|c| !c.is_ascii()) {
        match c {
            '\u{FF21}'..='\u{FF3A}' | '\u{FF41}'..='\u{FF5A}' => wide += 1,
            _ if c.is_alphabetic() => other += 1,
            _ => {}
        }
    }
    wide >= MIN_FULL_WIDTH && wide > other
}

/// Words that hold Latin letters and letters of another script that look Latin.
fn mixed_words(text: &str) -> usize {
    let mut mixed = 0;
    let mut at = 0;
    while let Some(wide) = next_wide(text, at) {
        let (before, rest) = text.split_at(wide);
        let Some(c) = rest.chars().next() else {
            break;
        };
        at = wide + c.len_utf8();
        // The dotless i is Turkish.
        if c == 'ı' || latin_look_alike(c).is_none() {
            continue;
        }
        let is_inside = |c: &char| c.is_alphabetic();
        let mut letters = before
            .chars()
            .rev()
            .take_while(is_inside)
            .chain(rest.chars().take_while(is_inside));
        mixed += usize::from(letters.any(|c| c.is_ascii_alphabetic()));
        at = wide
            + rest
                .find(|c: char| !c.is_alphabetic())
                .unwrap_or(rest.len());
    }
    mixed
}

/// The Latin letter that a Cyrillic, Greek, Armenian or phonetic one cannot be told from.
fn latin_look_alike(c: char) -> Option<char> {
    Some(match c {
        'а' | 'ɑ' | 'α' => 'a',
        'А' | 'Α' => 'A',
        'В' | 'Β' => 'B',
        'Ь' | 'ь' => 'b',
        'с' | 'ϲ' => 'c',
        'С' | 'Ϲ' => 'C',
        'ԁ' => 'd',
        'е' | 'ҽ' => 'e',
        'Е' | 'Ε' => 'E',
        'ɡ' => 'g',
        'һ' | 'հ' => 'h',
        'Н' | 'Η' => 'H',
        'і' | 'ι' | 'ı' => 'i',
        'І' | 'Ι' | 'Ӏ' => 'I',
        'ј' => 'j',
        'Ј' => 'J',
        'к' | 'κ' => 'k',
        'К' | 'Κ' => 'K',
        'ӏ' => 'l',
        'М' | 'Μ' => 'M',
        'п' | 'ո' => 'n',
        'Ν' => 'N',
        'о' | 'ο' | 'օ' => 'o',
        'О' | 'Ο' => 'O',
        'р' | 'ρ' => 'p',
        'Р' | 'Ρ' => 'P',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' => 's',
        'Ѕ' => 'S',
        'т' | 'τ' => 't',
        'Т' | 'Τ' => 'T',
        'υ' | 'ս' => 'u',
        'ν' | 'ѵ' => 'v',
        'ѡ' | 'ԝ' => 'w',
        'х' | 'χ' => 'x',
        'Х' | 'Χ' => 'X',
        'у' | 'γ' => 'y',
        'У' | 'Υ' => 'Y',
        'Ζ' => 'Z',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Sign, normalize};

    fn check(raw: &str, text: &str, signs: &[Sign]) {
        let normal = normalize(raw);
        assert_eq!(normal.folded.as_deref().unwrap_or(&normal.text), text);
        assert_eq!(normal.signs, signs, "{raw:?}");
    }

    #[test]
    fn ordinary_text_stays() {
        check("Größe und Maß", "Größe und Maß", &[]);
        check("Привет, мир", "Привет, мир", &[]);
        check("naïve café ﬁsh", "naïve café fish", &[]);
        check("می\u{200C}خواهم", "میخواهم", &[]);
        check(
            "👩\u{200D}👩\u{200D}👧 Scotland 🏴\u{E0067}\u{E0062}\u{E007F}",
            "👩👩👧 Scotland 🏴",
            &[],
        );
        check("一二ＡＢＣ製品", "一二ABC製品", &[]);
    }

    #[test]
    fn hidden_text_comes_out() {
        let tags: String = "ignore"
            .chars()
            .filter_map(|c| char::from_u32(0xE0000 + u32::from(c)))
            .collect();
        check(
            &format!("Fine.{tags}"),
            "Fine. ignore",
            &[Sign::TagCharacters],
        );
        check(
            "i\u{200B}g\u{200B}n\u{200B}ore",
            "ignore",
            &[Sign::ZeroWidth],
        );
        check("abc\u{202E}def", "abcdef", &[Sign::BidiOverride]);
        check("іgnоrе рrеvіоus", "ignore previous", &[Sign::MixedScript]);
        check(
            "ｉｇｎｏｒｅ ｐｒｅｖｉｏｕｓ",
            "ignore previous",
            &[Sign::FullWidth],
        );
    }
}
