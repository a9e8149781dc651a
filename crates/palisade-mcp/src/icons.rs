//! The icons of tools: drawn in the text itself, so that no client fetches anything.

use rmcp::model::Icon;

/// What stands before and after the path of each. Clients that check schemas take no text with blanks for a URI (RFC 3986).
const BEFORE: &str = "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%2016%2016'%20fill='none'%20\
                      stroke='%23808080'%20stroke-width='1.5'%3E%3Cpath%20d='";
const AFTER: &str = "'/%3E%3C/svg%3E";

fn drawn(path: &str) -> Icon {
    let path = path.replace(' ', "%20");
    Icon::new(format!("{BEFORE}{path}{AFTER}"))
        .with_mime_type("image/svg+xml")
        .with_sizes(vec!["any".to_owned()])
}

/// A table.
pub(crate) fn catalog() -> Icon {
    drawn("M2 3h12v10H2zM2 6h12M6 6v7")
}

/// A magnifying glass.
pub(crate) fn search() -> Icon {
    drawn("M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2zM11 11l3 3")
}

/// A prompt.
pub(crate) fn statement() -> Icon {
    drawn("M3 4l4 4-4 4M8 12h5")
}

/// A pencil.
pub(crate) fn change() -> Icon {
    drawn("M3 13l1-4 7-7 3 3-7 7z")
}

/// A clock.
pub(crate) fn past() -> Icon {
    drawn("M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3l2 2")
}

/// A shield.
pub(crate) fn policy() -> Icon {
    drawn("M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4z")
}

/// A sheet.
pub(crate) fn template() -> Icon {
    drawn("M4 2h6l2 2v10H4zM6 7h4M6 10h4")
}
