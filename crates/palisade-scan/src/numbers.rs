//! Numbers of payment cards and bank accounts: by their form, and by their check digits.

use std::ops::Range;

use crate::counts::count;

/// The fewest digits that a text with either has.
const LEAST_DIGITS: usize = 10;

/// Whether a text has digits enough for either.
pub(crate) fn may_hold_numbers(text: &[u8]) -> bool {
    text.len() >= 14 && count(text, |b| b.is_ascii_digit()) >= LEAST_DIGITS
}

/// The first number of a card: 14 to 16 digits, together or in groups with a space or `-` between them. The first digits are those of a
/// scheme, and the last is right by Luhn's rule (ISO/IEC 7812-1).
#[must_use]
pub fn find_card(text: &[u8]) -> Option<Range<usize>> {
    starts_of_digits(text).find_map(|start| {
        let (digits, len) = read_groups(text.get(start..)?, |b| b.is_ascii_digit(), 16)?;
        (is_of_scheme(&digits) && is_right_by_luhn(&digits)).then_some(start..start + len)
    })
}

/// The first IBAN: the letters of a country, check digits that are right modulo 97, and as many characters as that country's have
/// (ISO 13616, and the registry of SWIFT).
#[must_use]
pub fn find_iban(text: &[u8]) -> Option<Range<usize>> {
    starts_of_accounts(text).find_map(|start| {
        let rest = text.get(start..)?;
        let country = rest.first_chunk::<2>()?;
        let checks = rest.get(2..4)?;
        let (_, length) = COUNTRIES.iter().find(|(code, _)| *code == country)?;
        if !checks.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let is_part = |b: u8| b.is_ascii_digit() || b.is_ascii_uppercase();
        let (characters, len) = read_groups(rest, is_part, *length)?;
        (characters.len() == *length && is_right_modulo_97(&characters))
            .then_some(start..start + len)
    })
}

/// Digits that a number of a card begins with before it may have a separator.
const FIRST_GROUP: usize = 4;

/// Where [`FIRST_GROUP`] digits or more begin that a number may start with. Such a run has a digit at a multiple of that place, so
/// that most bytes are not looked at.
fn starts_of_digits(text: &[u8]) -> impl Iterator<Item = usize> {
    let mut seen = 0;
    (0..text.len()).step_by(FIRST_GROUP).filter_map(move |at| {
        if at < seen || !text.get(at)?.is_ascii_digit() {
            return None;
        }
        let (before, after) = text.split_at_checked(at)?;
        let digits = |b: &&u8| b.is_ascii_digit();
        let start = at - before.iter().rev().take_while(digits).count();
        seen = at + after.iter().take_while(digits).count();
        (seen - start >= FIRST_GROUP && may_start(text, start)).then_some(start)
    })
}

/// Where two letters and two digits stand that an account may start with. One of the digits is at an even place.
fn starts_of_accounts(text: &[u8]) -> impl Iterator<Item = usize> {
    let is_start = |start: usize| {
        matches!(
            text.get(start..start + 4),
            Some([b'A'..=b'Z', b'A'..=b'Z', b'0'..=b'9', b'0'..=b'9'])
        ) && may_start(text, start)
    };
    (0..text.len())
        .step_by(2)
        .filter(|at| text.get(*at).is_some_and(u8::is_ascii_digit))
        .flat_map(|at| [at.checked_sub(3), at.checked_sub(2)])
        .flatten()
        .filter(move |start| is_start(*start))
}

/// Whether no letter, digit, or sign of a longer number stands before a place.
fn may_start(text: &[u8], start: usize) -> bool {
    let before = start.checked_sub(1).and_then(|at| text.get(at));
    !before.is_some_and(|before| {
        before.is_ascii_alphanumeric() || matches!(before, b'.' | b'_' | b'-' | b'+' | 0x80..)
    })
}

/// Characters from the beginning of `text` with at most one separator, always the same, between two of them; and how many bytes they
/// are. None if they go on.
fn read_groups(text: &[u8], is: impl Fn(u8) -> bool, most: usize) -> Option<(Vec<u8>, usize)> {
    let (mut read, mut len) = (Vec::with_capacity(most), 0);
    let mut separator = None;
    while read.len() < most {
        match *text.get(len..)? {
            [byte, ..] if is(byte) => {
                read.push(byte);
                len += 1;
            }
            [sign @ (b' ' | b'-'), next, ..]
                if is(next) && read.len() >= 4 && *separator.get_or_insert(sign) == sign =>
            {
                len += 1;
            }
            [] | [_, ..] => break,
        }
    }
    let goes_on = match *text.get(len..)? {
        [byte, ..] if byte.is_ascii_alphanumeric() || byte == b'_' => true,
        [b'.' | b'-', next, ..] => next.is_ascii_alphanumeric(),
        [] | [_, ..] => false,
    };
    (!goes_on).then_some((read, len))
}

/// Visa, Mastercard, American Express, Discover, JCB and Diners Club, by first digits and length.
fn is_of_scheme(digits: &[u8]) -> bool {
    let first = digits
        .iter()
        .take(4)
        .fold(0_u32, |number, b| number * 10 + u32::from(b - b'0'));
    match digits.len() {
        16 => {
            matches!(first, 4000..=4999 | 5100..=5599 | 2221..=2720 | 6011 | 6440..=6599 | 3528..=3589)
        }
        15 => matches!(first, 3400..=3499 | 3700..=3799),
        14 => matches!(first, 3000..=3059 | 3600..=3699 | 3800..=3999),
        _ => false,
    }
}

fn is_right_by_luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .zip([1, 2].iter().cycle())
        .map(|(b, times)| {
            let product = u32::from(b - b'0') * times;
            product / 10 + product % 10
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_right_modulo_97(characters: &[u8]) -> bool {
    let (start, rest) = characters.split_at_checked(4).unwrap_or_default();
    let remainder = rest.iter().chain(start).fold(0_u32, |number, b| {
        if b.is_ascii_digit() {
            (number * 10 + u32::from(b - b'0')) % 97
        } else {
            (number * 100 + u32::from(b - b'A') + 10) % 97
        }
    });
    remainder == 1
}

/// Countries with an IBAN, and how many characters theirs have.
const COUNTRIES: &[(&[u8; 2], usize)] = &[
    (b"AD", 24),
    (b"AE", 23),
    (b"AL", 28),
    (b"AT", 20),
    (b"AZ", 28),
    (b"BA", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"BH", 22),
    (b"BR", 29),
    (b"BY", 28),
    (b"CH", 21),
    (b"CR", 22),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DK", 18),
    (b"DO", 28),
    (b"EE", 20),
    (b"EG", 29),
    (b"ES", 24),
    (b"FI", 18),
    (b"FO", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GE", 22),
    (b"GI", 23),
    (b"GL", 18),
    (b"GR", 27),
    (b"GT", 28),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IL", 23),
    (b"IQ", 23),
    (b"IS", 26),
    (b"IT", 27),
    (b"JO", 30),
    (b"KW", 30),
    (b"KZ", 20),
    (b"LB", 28),
    (b"LC", 32),
    (b"LI", 21),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"LY", 25),
    (b"MC", 27),
    (b"MD", 24),
    (b"ME", 22),
    (b"MK", 19),
    (b"MR", 27),
    (b"MT", 31),
    (b"MU", 30),
    (b"NL", 18),
    (b"NO", 15),
    (b"PK", 24),
    (b"PL", 28),
    (b"PS", 29),
    (b"PT", 25),
    (b"QA", 29),
    (b"RO", 24),
    (b"RS", 22),
    (b"SA", 24),
    (b"SC", 31),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
    (b"SM", 27),
    (b"ST", 25),
    (b"SV", 28),
    (b"TL", 23),
    (b"TN", 24),
    (b"TR", 26),
    (b"UA", 29),
    (b"VA", 22),
    (b"VG", 24),
    (b"XK", 20),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_found_by_scheme_and_check_digit() {
        for (text, expected) in [
            ("4539148803436467", Some(0..16)),
            ("no 4539-1488-0343-6467.", Some(3..22)),
            ("3782 822463 10005", Some(0..17)),
            ("30569309025904", Some(0..14)),
            ("first 4539148803436468 then 4539148803436467", Some(28..44)),
            ("4539148803436468", None),
            // Mixed separators, a longer number, a part of a word, another scheme.
            ("4539 1488-0343 6467", None),
            ("45391488034364671", None),
            ("x4539148803436467", None),
            ("4539148803436467x", None),
            ("4539148803436467.5", None),
            ("9999999999999995", None),
        ] {
            assert_eq!(find_card(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_found_at_any_place() {
        for before in 0..9 {
            let filler = "y 12 345, ".repeat(3);
            let filler = filler.get(..20 + before).unwrap_or_default();
            for (number, find) in [
                ("4539-1488-0343-6467", find_card as fn(&[u8]) -> _),
                ("3782 822463 10005", find_card),
                ("DE89370400440532013000", find_iban),
                ("GB29 NWBK 6016 1331 9268 19", find_iban),
            ] {
                let text = format!("{filler} x, {number}, 7");
                let start = filler.len() + 4;
                let expected = Some(start..start + number.len());
                assert_eq!(find(text.as_bytes()), expected, "{text}");
            }
        }
    }

    #[test]
    fn ibans_are_found_by_country_and_check_digits() {
        for (text, expected) in [
            ("DE89370400440532013000", Some(0..22)),
            ("an GB29 NWBK 6016 1331 9268 19.", Some(3..30)),
            ("NO9386011117947", Some(0..15)),
            ("DE88370400440532013000", None),
            ("DE8937040044053201300", None),
            ("DE893704004405320130000", None),
            ("XX89370400440532013000", None),
            ("ADE89370400440532013000", None),
        ] {
            assert_eq!(find_iban(text.as_bytes()), expected, "{text}");
        }
    }
}
