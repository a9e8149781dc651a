//! Self-contained pages for a browser: no script, nothing from elsewhere, every text escaped.

use crate::human::printable;

/// How pages look, in light and in dark.
const STYLE: &str = include_str!("page.css");

/// A page with this title and body; the body is HTML.
pub(crate) fn write(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(title)
    )
}

/// A name of a principal, a table or a column, in the letters of code.
pub(crate) fn name(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

/// `text` as HTML shows it. What would turn letters around or hide them is spelled out; line ends stay.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        for c in printable(line).chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                other => out.push(other),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(
            escape("<b title=\"x\" id='y'>&\n\u{202e}"),
            "&lt;b title=&quot;x&quot; id=&#39;y&#39;&gt;&amp;\n\\u{202e}"
        );
    }
}
