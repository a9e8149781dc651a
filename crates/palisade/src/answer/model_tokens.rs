//! About how many tokens a model takes for a text. A tokenizer's vocabulary is megabytes; this counts by kinds of characters,
//! and counts rather too many than too few.

/// The longest run of letters that is one word of a language, and not the letters of a key or of an encoding.
const LONGEST_WORD: usize = 14;

/// Tokens of `text`, about.
pub(crate) fn estimate_model_tokens(text: &str) -> usize {
    let mut tokens = 0;
    let mut run = Run::default();
    for c in text.chars() {
        let kind = Kind::find(c);
        if kind != run.kind {
            tokens += run.tokens();
            run = Run {
                kind,
                ..Run::default()
            };
        }
        run.push(c);
    }
    tokens + run.tokens()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Space,
    Letter,
    Digit,
    Line,
    Mark,
    /// Letters of other alphabets.
    Alphabet,
    /// Characters that are words by themselves.
    Ideograph,
    Other,
}

impl Kind {
    fn find(c: char) -> Self {
        match c {
            ' ' => Self::Space,
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            '\n' | '\r' | '\t' => Self::Line,
            '!'..='~' => Self::Mark,
            '\u{C0}'..='\u{1FFF}' => Self::Alphabet,
            '\u{3040}'..='\u{30FF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' => {
                Self::Ideograph
            }
            _ => Self::Other,
        }
    }
}

/// Characters of one kind, one after the other.
#[derive(Default)]
struct Run {
    kind: Kind,
    chars: usize,
    bytes: usize,
    /// Of letters: how often a capital follows a small letter or the other way round, the first capital aside.
    turns: usize,
    vowels: usize,
    last_is_capital: bool,
}

impl Run {
    fn push(&mut self, c: char) {
        let is_capital = c.is_ascii_uppercase();
        if self.chars > 1 && is_capital != self.last_is_capital
            || self.chars == 1 && is_capital && !self.last_is_capital
        {
            self.turns += 1;
        }
        self.last_is_capital = is_capital;
        self.vowels += usize::from("aeiouyAEIOUY".contains(c));
        self.chars += 1;
        self.bytes += c.len_utf8();
    }

    fn tokens(&self) -> usize {
        match self.kind {
            // Most spaces are part of the word behind them.
            Kind::Space => self.chars / 4,
            Kind::Letter => self.letters(),
            Kind::Digit => self.chars.div_ceil(3),
            Kind::Line | Kind::Mark => self.chars,
            Kind::Alphabet => self.chars.div_ceil(2),
            Kind::Ideograph => self.chars,
            Kind::Other => self.bytes,
        }
    }

    fn letters(&self) -> usize {
        // About two letters in five are vowels; where there are few, the letters are no word.
        let is_word =
            self.chars <= LONGEST_WORD && self.turns == 0 && self.vowels * 5 >= self.chars;
        if is_word {
            self.chars.div_ceil(5)
        } else {
            (self.chars * 5).div_ceil(8) + self.turns / 3
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_words_where_they_have_vowels_and_are_few() {
        for (text, tokens) in [
            ("", 0),
            ("customer", 2),
            ("Customer", 2),
            // Without vowels, with capitals inside, and too long for a word: letters of a key.
            ("xkcdqz", 4),
            ("cuStomer", 5),
            ("aBcDeF", 5),
            ("aeiouaeiouaeio", 3),
            ("aeiouaeiouaeiou", 10),
            ("customer customer", 4),
            ("12345", 2),
            ("--\n", 3),
            ("\u{1F600}", 4),
        ] {
            assert_eq!(estimate_model_tokens(text), tokens, "{text}");
        }
    }
}
