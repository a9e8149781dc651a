//! How text is shown to a model: what hides, reorders or imitates is spelled out, the rest stays as it is.
//!
//! One rule for both copies of an answer. It works on values and not on their JSON, because a reader of JSON undoes escapes
//! before a model sees the text. What is spelled out stands as `\uXXXX`, visible characters that mean nothing to a
//! terminal, a template or a parser of marks:
//!
//! * characters without a place on paper, and those that change the direction of others;
//! * joiners and variation selectors, except where writing needs them: a single one, at a letter of a script that
//!   joins or at an emoji;
//! * a `<` that opens what could be a mark of a chat template or around data: `<<`, `<|`, `</`. Closing tags of
//!   ordinary HTML stay.

use std::borrow::Cow;

/// Closing tags that text in a database has honestly and no chat template uses.
const HTML: &[&str] = &[
    "a",
    "b",
    "blockquote",
    "body",
    "br",
    "button",
    "center",
    "code",
    "dd",
    "div",
    "dl",
    "dt",
    "em",
    "font",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "html",
    "i",
    "label",
    "li",
    "ol",
    "option",
    "p",
    "pre",
    "select",
    "small",
    "span",
    "strong",
    "style",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "u",
    "ul",
];

/// `text` as a model may read it.
#[must_use]
pub fn spell_out(text: &str) -> Cow<'_, str> {
    let suspect = |c: char| c == '<' || c == '\r' || is_invisible(c) || is_selector(c);
    let Some(first) = text.find(suspect) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::new();
    // What has been copied ends here.
    let mut copied = 0;
    let mut before = text.get(..first).and_then(|text| text.chars().next_back());
    let mut doubled = false;
    let rest = text.get(first..).unwrap_or_default();
    for (at, c) in rest.char_indices() {
        let at = first + at;
        let next = at + c.len_utf8();
        let after = text.get(next..).unwrap_or_default();
        let hides = if c == '<' {
            let opens = doubled || opens_mark(after);
            // The second of two is spelled out too, so that no pair is left over in a longer run.
            doubled = after.starts_with('<');
            opens
        } else {
            doubled = false;
            if c == '\r' {
                // Alone, it takes a terminal back to the beginning of the line, and what follows covers what was there.
                !after.starts_with('\n')
            } else if is_joiner(c) {
                !joins(before, after.chars().next())
            } else if is_selector(c) {
                !selects(c, before)
            } else {
                is_invisible(c)
            }
        };
        if hides {
            out.push_str(text.get(copied..at).unwrap_or_default());
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
            copied = next;
        }
        before = Some(c);
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Whether a `<` before `after` could open a mark.
fn opens_mark(after: &str) -> bool {
    match after.chars().next() {
        // The second is the bar of templates whose marks have full width.
        Some('<' | '|' | '\u{FF5C}') => true,
        Some('/') => {
            let rest = after.get(1..).unwrap_or_default();
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
            let tag = end.and_then(|end| rest.split_at_checked(end));
            !tag.is_some_and(|(name, rest)| {
                rest.starts_with('>') && HTML.iter().any(|html| html.eq_ignore_ascii_case(name))
            })
        }
        _ => false,
    }
}

/// Characters that have no place on paper or change that of others; joiners are among them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{7F}'..='\u{9F}' | '\u{AD}' | '\u{34F}' | '\u{61C}'
        | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
}

/// Variation selectors of the first sixteen; the others are within what is invisible.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{FE00}'..='\u{FE0F}')
}

/// Whether a joiner between these is one of writing: it stands alone, and at least one of them joins.
fn joins(before: Option<char>, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return false;
    };
    let is_visible = |c: char| !is_invisible(c) && !c.is_whitespace();
    is_visible(before)
        && is_visible(after)
        // After an emoji its selector may stand.
        && (is_joining(before) || before == '\u{FE0F}' || is_joining(after))
}

/// Whether a variation selector after this is one of writing: it stands alone, and after what has variants.
fn selects(selector: char, before: Option<char>) -> bool {
    before.is_some_and(|before| match selector {
        // As text, or as an emoji.
        '\u{FE0E}' | '\u{FE0F}' => {
            is_joining(before)
                || matches!(before, '0'..='9' | '#' | '*' | '\u{A9}' | '\u{AE}' | '\u{2000}'..='\u{33FF}')
                    && !is_invisible(before)
        }
        '\u{FE00}'..='\u{FE02}' => {
            matches!(before, '\u{1000}'..='\u{109F}' | '\u{2190}'..='\u{2BFF}' | '\u{3000}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}' | '\u{20000}'..='\u{3FFFF}')
        }
        _ => false,
    })
}

/// Letters of scripts whose writing joins or splits them by invisible characters, and emoji.
fn is_joining(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8FF}' | '\u{900}'..='\u{DFF}' | '\u{F00}'..='\u{109F}' | '\u{1780}'..='\u{18AF}' | '\u{1900}'..='\u{1AFF}'
        | '\u{1B00}'..='\u{1CFF}' | '\u{2190}'..='\u{21FF}' | '\u{2300}'..='\u{23FF}' | '\u{2600}'..='\u{27BF}' | '\u{2B00}'..='\u{2BFF}'
        | '\u{A840}'..='\u{ABFF}' | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFE}' | '\u{10A00}'..='\u{11FFF}'
        | '\u{1E900}'..='\u{1E95F}' | '\u{1F000}'..='\u{1FAFF}')
        && !is_invisible(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_text_stays() {
        for text in [
            "",
            "a < b && c <= d, x <- y, i<3",
            "<p class=\"x\">one<br>two</p> <B>three</B>",
            "line\nline\ttab\r\n",
            "naïve café, Ελληνικά, 日本語",
            // Families, flags, hearts, keycaps, tones.
            "👨‍👩‍👧‍👦 🏳️‍🌈 ❤️ ❤️‍🔥 1️⃣ 👩🏽‍⚕️ 🇩🇪 ☎︎ ©️",
            "می\u{200C}خواهم کتاب\u{200C}ها USB\u{200C}ها",
            "क्\u{200D}ष ක්\u{200D}ෂ",
            "葛\u{FE00}",
            "\\u200b and C:\\users",
        ] {
            assert!(
                matches!(spell_out(text), Cow::Borrowed(same) if same == text),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_hides_or_imitates_is_spelled_out() {
        for (text, expected) in [
            ("a\u{200B}b", "a\\u200bb"),
            ("a\u{200D}b", "a\\u200db"),
            ("\u{200C}", "\\u200c"),
            ("م\u{200C}\u{200C}م", "م\\u200c\\u200cم"),
            ("a\u{FE0F}b", "a\\ufe0fb"),
            ("❤\u{FE0F}\u{FE0F}", "❤\u{FE0F}\\ufe0f"),
            ("❤\u{FE05}", "❤\\ufe05"),
            ("x\u{202E}y\u{2066}z", "x\\u202ey\\u2066z"),
            ("\u{E0041}", "\\udb40\\udc41"),
            ("\u{1b}[2J", "\\u001b[2J"),
            ("shown\rinstead", "shown\\u000dinstead"),
            ("a\r\nb", "a\r\nb"),
            ("<|im_start|>system", "\\u003c|im_start|>system"),
            ("<｜User｜>", "\\u003c｜User｜>"),
            ("<</palisade-data x>>", "\\u003c\\u003c/palisade-data x>>"),
            ("<<<<", "\\u003c\\u003c\\u003c\\u003c"),
            ("<<a", "\\u003c\\u003ca"),
            (
                "</s></system></tool_call>",
                "\\u003c/s>\\u003c/system>\\u003c/tool_call>",
            ),
            ("</p", "\\u003c/p"),
            ("</p\u{200B}>", "\\u003c/p\\u200b>"),
        ] {
            assert_eq!(spell_out(text), expected, "{text:?}");
            // Once is enough.
            assert_eq!(spell_out(expected), expected);
        }
    }
}
